"""The form for two replies: `{"preference": −3…3}`, or `{"both_bad": true}`.

A negative preference means that the first shown is better, 0 is a tie. The better one is worth 1/2
+ |preference| / 6, the other 1/2 − |preference| / 6. If both are bad, both are worth 0.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from apps.feedback.forms.form import Answer, Form, Question
from apps.feedback.forms.words import whole
from apps.runs.people import People

STRONGEST = 3  # the strongest preference, either way


class Pairwise(Form):
    name = "pairwise"
    asks = "Which reply is better?"
    summary = "the better of two replies, and by how much"
    fields = frozenset({"preference", "both_bad"})
    min_rollouts = max_rollouts = 2

    def read(self, raw: Mapping[str, Any], question: Question, problems: dict[str, str]) -> Answer:
        if len(raw) != 1:
            problems["preference"] = (
                f"give either a preference from -{STRONGEST} (the first is much better) to"
                f" {STRONGEST}, or both_bad"
            )
            return {}
        if "preference" in raw:
            return {
                "preference": whole(
                    raw["preference"], "preference", problems, -STRONGEST, STRONGEST
                )
            }
        if raw["both_bad"] is not True:
            problems["both_bad"] = "must be true or omitted"
        return {"both_bad": True}

    def values(self, answer: Answer, shown: Sequence[int], people: People) -> dict[int, float]:
        first, second = shown
        if "both_bad" in answer:
            return {first: 0.0, second: 0.0}
        lead = answer["preference"] / (2 * STRONGEST)
        return {first: 0.5 - lead, second: 0.5 + lead}
