"""The display of a held item: the question, the replies in order, the keys.

It does not show who else judged, the scorers' values, or which weights wrote a reply.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.template import Template

from apps.accounts.models import User
from apps.accounts.rating_keys import keys_by_action
from apps.feedback.claiming import HeldItem
from apps.feedback.forms import FORMS
from apps.feedback.forms.pairwise.form import STRONGEST
from apps.feedback.forms.words import MAX_TEXT_LENGTH
from apps.feedback.models import NORMING
from apps.feedback.norming import Place, place_in_round
from apps.rollouts.turns import POLICY, Turn, list_turns
from apps.runs.people import Scale

STARS = ((1, "bad"), (2, "poor"), (3, "fair"), (4, "good"), (5, "very good"))
PREFERENCES = (
    "much better",
    "better",
    "a little better",
    "equally good",
    "a little better",
    "better",
    "much better",
)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
DIGITS = 9
# Text without spaces between words is marked character by character.
UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
WORD = re.compile(f"[{UNSPACED}]|[^\\s{UNSPACED}]+")


@dataclass(frozen=True)
class Choice:
    """One of several values: what is sent, its key, and its label."""

    value: object
    key: str
    words: str = ""
    given: bool = False


@dataclass(frozen=True)
class Reply:
    """One rollout as shown: its position from 1, its letter, its text; `turns` for a dialogue."""

    rollout: int
    place: int
    letter: str
    text: str
    turns: Sequence[dict]
    rank: int | None = None

    @property
    def is_dialogue(self) -> bool:
        return len(self.turns) > 1


@dataclass(frozen=True)
class ShownItem:
    """An item as its template shows it.

    `answer` and `critique` are those of a withdrawn decision. `norming` is given for an item of
    the norming round.
    """

    held: HeldItem
    keys: dict[str, str]
    replies: Sequence[Reply]
    answer: dict = field(default_factory=dict)
    critique: str = ""
    norming: Place | None = None

    @property
    def asks(self) -> str:
        return FORMS[self.held.form].asks

    @property
    def template(self) -> Template:
        return FORMS[self.held.form].template

    @property
    def choices(self) -> Sequence[Any]:
        """Return what the rating form offers to choose from, if it is a plugin's."""
        return FORMS[self.held.form].choices(self.held.people)

    @property
    def options(self) -> Any:
        """Return the typed options of the run's rating form."""
        return FORMS[self.held.form].read_options(self.held.people)

    @property
    def max_length(self) -> int:
        return MAX_TEXT_LENGTH

    @property
    def text(self) -> str:
        return self.replies[0].text

    @property
    def stars(self) -> list[Choice]:
        return [Choice(n, str(n), words, self.answer.get("stars") == n) for n, words in STARS]

    @property
    def thumbs(self) -> list[Choice]:
        is_up = self.answer.get("up")
        return [Choice("no", "1", "Bad", is_up is False), Choice("yes", "2", "Good", is_up is True)]

    @property
    def preferences(self) -> list[Choice]:
        numbers = range(-STRONGEST, STRONGEST + 1)
        preference = self.answer.get("preference")
        return [
            Choice(n, str(place), words, preference == n)
            for place, (n, words) in enumerate(zip(numbers, PREFERENCES, strict=True), start=1)
        ]

    @property
    def scales(self) -> list[tuple[Scale, list[Choice]]]:
        scale_values = self.answer.get("scales", {})
        return [
            (scale, _values(scale, scale_values.get(scale.name)))
            for scale in self.held.people.rubric
        ]

    @property
    def spans_json(self) -> str:
        return json.dumps(self.answer.get("spans", []))

    @property
    def words(self) -> list[tuple[int, str, str]]:
        return list(split_words(self.text))

    @property
    def ranked(self) -> list[Reply]:
        """Return the replies in the order of an earlier answer, or as shown."""
        return sorted(self.replies, key=lambda reply: reply.rank or 0)

    @property
    def first_error(self) -> str:
        """Return the earlier first error as its control sends it.

        "none" if no turn was wrong, "" without an earlier answer.
        """
        if "first_error" not in self.answer:
            return ""
        turn = self.answer["first_error"]
        return "none" if turn is None else str(turn)


def show_item(
    user: User, held_item: HeldItem, answer: dict | None = None, critique: str = ""
) -> ShownItem:
    """Return the item as this person sees it, with the answer of a withdrawn decision."""
    ranks = (answer or {}).get("ranks", {})
    replies = [
        Reply(
            member.id,
            place,
            LETTERS[(place - 1) % len(LETTERS)],
            member.text,
            mark_turns(list_turns(member.rollout), answer or {}),
            ranks.get(str(member.id)),
        )
        for place, member in enumerate(held_item.members, start=1)
    ]
    norming = (
        place_in_round(held_item.run_id, held_item.item_id)
        if held_item.purpose == NORMING
        else None
    )
    return ShownItem(
        held_item, keys_by_action(user.rating_keys), replies, answer or {}, critique, norming
    )


def mark_turns(turns: Sequence[Turn], answer: dict) -> list[dict]:
    """Return the turns of a dialogue.

    The policy's turns have a `number` from 0 and an earlier mark.
    """
    marks = answer.get("marks", {})
    number = 0
    rows = []
    for turn in turns:
        row = {"is_policy": turn.role == POLICY, "text": turn.text}
        if row["is_policy"]:
            mark = marks.get(str(number))
            row |= {"number": number, "choices": _marks(mark)}
            number += 1
        rows.append(row)
    return rows


def _marks(mark: int | None) -> list[Choice]:
    return [
        Choice(n - 2, str(n), words, mark == n - 2)
        for n, words in ((1, "bad"), (2, "neutral"), (3, "good"))
    ]


def _values(scale: Scale, chosen_value: int | None) -> list[Choice]:
    """Return the values of a scale.

    The key is the value itself if all are single digits, otherwise its position from 1.
    """
    is_digit = scale.low >= 0 and scale.high <= DIGITS

    def key(place: int, value: int) -> str:
        if is_digit:
            return str(value)
        return str(place) if place <= DIGITS else ""

    values = enumerate(range(scale.low, scale.high + 1), start=1)
    return [
        Choice(value, key(place, value), str(value).replace("-", "−"), chosen_value == value)
        for place, value in values
    ]


def split_words(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the words of a text: start in code points, the word, and the text up to the next."""
    words = list(WORD.finditer(text))
    if not words:
        return
    ends = [word.start() for word in words[1:]] + [len(text)]
    for word, end in zip(words, ends, strict=True):
        yield word.start(), word.group(), text[word.end() : end]
