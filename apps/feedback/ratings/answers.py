"""Check the answer of a rating against its form, and refuse ratings."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from apps.feedback.forms import FORMS, BadAnswer, critique_of
from apps.feedback.models import FLAG, Item
from apps.feedback.rewrite_lessons import policy_turns
from apps.rollouts.models import Rollout
from apps.runs.people import People

# Forms whose answers refer to characters or turns of the rollout.
COUNTS_TEXT = "spans"
COUNTS_TURNS = "turns"


class Refused(Exception):
    """Raised for a refused decision; `code` is for programs, the message for people."""

    def __init__(self, code: str, words: str) -> None:
        super().__init__(words)
        self.code = code


class UsedUuid(Refused):
    """Raised for a decision whose uuid, in the field of this name, identifies another rating."""

    def __init__(self, field: str = "client_uuid") -> None:
        super().__init__(
            "used_uuid", f"This {field} was already used for another rating. Use a new one."
        )


def read_item_answer(
    item: Item,
    form: str,
    raw: object,
    critique: object,
    shown: Sequence[int],
    people: People,
    other_problems: Mapping[str, str] = MappingProxyType({}),
) -> tuple[dict, str]:
    """Return the canonical answer and critique of a decision about an item.

    `other_problems` are those of the decision's other fields. Raises BadAnswer with all problems by
    field, or for a form that the item does not have.
    """
    if form not in (item.form, FLAG):
        raise BadAnswer({"form": f"must be {item.form} for this item"})
    problems: dict[str, str] = {}
    text = ""
    answer: dict = {}
    try:
        text = critique_of(critique, form)
    except BadAnswer as bad:
        problems |= bad.problems
    try:
        answer = FORMS[form].parse(raw, shown, people, **_text_or_turns(item, form))
    except BadAnswer as bad:
        problems |= bad.problems
    problems |= other_problems
    if problems:
        raise BadAnswer(problems)
    return answer, text


def _text_or_turns(item: Item, form: str) -> dict:
    """Return the text or the number of turns in which answers of this form count."""
    if form == COUNTS_TEXT:
        return {"text": Rollout.objects.values_list("text", flat=True).get(pk=item.members[0])}
    if form == COUNTS_TURNS:
        rollout = Rollout.objects.select_related("payload").get(pk=item.members[0])
        return {"turns": policy_turns(rollout)}
    return {}
