"""The form for marks on the policy's turns, or for the first wrong one.

The answer is `{"marks": {"<turn>": −1 | 0 | 1}}` or `{"first_error": turn}`. Turns count from 0.
Marks are worth the share of good turns among those marked, a neutral one counting half. A first
error at turn n of T is worth n / T, none (null) 1; the canonical answer keeps T beside it:
`{"first_error": 2, "of": 5}`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from apps.feedback.forms.form import Answer, Form, Question
from apps.feedback.forms.words import whole
from apps.runs.people import People


class Turns(Form):
    name = "turns"
    asks = "Rate each turn"
    summary = "a mark for each turn"
    fields = frozenset({"marks", "first_error", "of"})

    def read(self, raw: Mapping[str, Any], question: Question, problems: dict[str, str]) -> Answer:
        if question.turns is None:
            raise ValueError("turns need the number of turns of the policy")
        if "of" in raw and (type(raw["of"]) is not int or raw["of"] != question.turns):
            problems["of"] = f"must be {question.turns}, the number of turns of the policy"
        if ("marks" in raw) == ("first_error" in raw):
            problems["marks"] = (
                "give either marks on turns or first_error (a turn, or null for no error), not both"
            )
            return {}
        if "marks" in raw:
            return {"marks": _marks(raw["marks"], question.turns, problems)}
        first = raw["first_error"]
        if first is not None:
            first = whole(first, "first_error", problems, 0, question.turns - 1)
            if "first_error" in problems:
                problems["first_error"] += ", or null for no error"
        return {"first_error": first, "of": question.turns}

    def values(self, answer: Answer, shown: Sequence[int], people: People) -> dict[int, float]:
        if "marks" in answer:
            marks = answer["marks"].values()
            return {shown[0]: sum((mark + 1) / 2 for mark in marks) / len(marks)}
        first = answer["first_error"]
        return {shown[0]: 1.0 if first is None else first / answer["of"]}


def _marks(raw: object, turns: int, problems: dict[str, str]) -> dict[str, int]:
    if not isinstance(raw, dict) or not raw:
        problems["marks"] = "must be an object with a mark for at least one turn"
        return {}
    policy_turns = [str(turn) for turn in range(turns)]
    for foreign in sorted(str(key)[:40] for key in raw.keys() - set(policy_turns))[:10]:
        problems[f"marks.{foreign}"] = (
            f"is not a turn of the policy; its turns are 0 to {turns - 1}"
        )
    return {
        turn: whole(raw[turn], f"marks.{turn}", problems, -1, 1)
        for turn in policy_turns
        if turn in raw
    }
