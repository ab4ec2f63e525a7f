"""What a rater is shown of an item that they hold: the question in words, the replies in their order, the keys.

Nothing here tells who else judged, what the machine thought, or which weights wrote it.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from apps.accounts.models import User
from apps.accounts.rating_keys import keys_of
from apps.feedback.claiming import Held
from apps.feedback.forms.pairwise import STRONGEST
from apps.feedback.forms.words import LONGEST
from apps.rollouts.turns import POLICY, Turn, turns_of
from apps.runs.people import Scale

ASKS = {
    "thumbs": "Is this reply good?",
    "stars": "How good is this reply?",
    "pairwise": "Which reply is better?",
    "ranking": "Put the replies in order, the best on top",
    "best_worst": "Which reply is the best, which the worst?",
    "rubric": "Judge the reply on each scale",
    "turns": "Judge what was done, turn by turn",
    "spans": "Mark what matters in the reply, and say why",
    "critique": "Say what is good or wrong here",
    "rewrite": "Write the reply as it should be",
}
STARS = ((1, "bad"), (2, "poor"), (3, "fair"), (4, "good"), (5, "very good"))
PREFERENCES = ("much better", "better", "a little better", "equally good", "a little better", "better", "much better")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
DIGITS = 9
# A script without spaces between its words is marked sign by sign.
UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
WORD = re.compile(f"[{UNSPACED}]|[^\\s{UNSPACED}]+")


@dataclass(frozen=True)
class Choice:
    """One of several values: what is sent, the key that gives it, the word beside it."""

    value: object
    key: str
    words: str = ""
    given: bool = False


@dataclass(frozen=True)
class Reply:
    """One rollout as shown: its place from 1, its letter, its text; `turns` where it was a dialogue."""

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
class Shown:
    """An item as its template shows it. `answer` and `critique` are what was said before, when it was taken back."""

    held: Held
    keys: dict[str, str]
    replies: Sequence[Reply]
    answer: dict = field(default_factory=dict)
    critique: str = ""

    @property
    def asks(self) -> str:
        return ASKS[self.held.form]

    @property
    def template(self) -> str:
        return f"feedback/item/{self.held.form}.html"

    @property
    def longest(self) -> int:
        return LONGEST

    @property
    def text(self) -> str:
        return self.replies[0].text

    @property
    def stars(self) -> list[Choice]:
        return [Choice(n, str(n), words, self.answer.get("stars") == n) for n, words in STARS]

    @property
    def thumbs(self) -> list[Choice]:
        given = self.answer.get("up")
        return [Choice("no", "1", "Bad", given is False), Choice("yes", "2", "Good", given is True)]

    @property
    def preferences(self) -> list[Choice]:
        numbers = range(-STRONGEST, STRONGEST + 1)
        given = self.answer.get("preference")
        return [
            Choice(n, str(place), words, given == n)
            for place, (n, words) in enumerate(zip(numbers, PREFERENCES, strict=True), start=1)
        ]

    @property
    def scales(self) -> list[tuple[Scale, list[Choice]]]:
        given = self.answer.get("scales", {})
        return [(scale, _values(scale, given.get(scale.name))) for scale in self.held.people.rubric]

    @property
    def spans_json(self) -> str:
        return json.dumps(self.answer.get("spans", []))

    @property
    def words(self) -> list[tuple[int, str, str]]:
        return list(words_of(self.text))

    @property
    def ranked(self) -> list[Reply]:
        """The replies in the order of an earlier answer, else as shown."""
        return sorted(self.replies, key=lambda reply: reply.rank or 0)

    @property
    def first_error(self) -> str:
        """The earlier first error as its control sends it; "none" where no turn was wrong, "" where nothing was said."""
        if "first_error" not in self.answer:
            return ""
        turn = self.answer["first_error"]
        return "none" if turn is None else str(turn)


def shown_to(user: User, held: Held, answer: dict | None = None, critique: str = "") -> Shown:
    """The item as this person sees it; with what they said before, when they took that back."""
    ranks = (answer or {}).get("ranks", {})
    replies = [
        Reply(
            member.id, place, LETTERS[(place - 1) % len(LETTERS)], member.text, marked(turns_of(member.rollout), answer or {}),
            ranks.get(str(member.id)),
        )
        for place, member in enumerate(held.members, start=1)
    ]  # fmt: skip
    return Shown(held, keys_of(user.rating_keys), replies, answer or {}, critique)


def marked(turns: Sequence[Turn], answer: dict) -> list[dict]:
    """The turns of a dialogue; those of the policy have their `number` from 0 and the mark they were given before."""
    marks, number, rows = answer.get("marks", {}), 0, []
    for turn in turns:
        row = {"is_policy": turn.role == POLICY, "text": turn.text}
        if row["is_policy"]:
            given = marks.get(str(number))
            row |= {"number": number, "choices": _marks(given)}
            number += 1
        rows.append(row)
    return rows


def _marks(given: int | None) -> list[Choice]:
    return [Choice(n - 2, str(n), words, given == n - 2) for n, words in ((1, "bad"), (2, "neutral"), (3, "good"))]


def _values(scale: Scale, given: int | None) -> list[Choice]:
    """The values of a scale. The key is the value itself where all are single digits, else its place from 1."""
    is_digit = scale.low >= 0 and scale.high <= DIGITS

    def key(place: int, value: int) -> str:
        return str(value) if is_digit else str(place) if place <= DIGITS else ""

    values = enumerate(range(scale.low, scale.high + 1), start=1)
    return [Choice(value, key(place, value), str(value).replace("-", "−"), given == value) for place, value in values]


def words_of(text: str) -> Iterator[tuple[int, str, str]]:
    """The words of a text with where each begins, in code points, and what stands between it and the next."""
    words = list(WORD.finditer(text))
    if not words:
        return
    ends = [word.start() for word in words[1:]] + [len(text)]
    for word, end in zip(words, ends, strict=True):
        yield word.start(), word.group(), text[word.end() : end]
