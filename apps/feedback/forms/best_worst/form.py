"""The form for the best and the worst of several: `{"best": id, "worst": id}`.

They are worth 1 and 0; the others are worth 1/2.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from apps.feedback.forms.form import Answer, Form, Question
from apps.feedback.forms.ranking.form import MANY
from apps.feedback.forms.words import one_of, required
from apps.runs.people import People


class BestWorst(Form):
    name = "best_worst"
    asks = "Which reply is best, and which is worst?"
    summary = "the best and the worst reply of a group"
    fields = frozenset({"best", "worst"})
    min_rollouts = 2
    max_rollouts = MANY

    def read(self, raw: Mapping[str, Any], question: Question, problems: dict[str, str]) -> Answer:
        answer = {}
        for field in ("best", "worst"):
            if required(raw, field, problems, "the ID of a rollout shown"):
                answer[field] = one_of(raw[field], field, problems, question.shown)
        if not problems and answer["best"] == answer["worst"]:
            problems["worst"] = "must differ from the best rollout"
        return answer

    def values(self, answer: Answer, shown: Sequence[int], people: People) -> dict[int, float]:
        return dict.fromkeys(shown, 0.5) | {answer["best"]: 1.0, answer["worst"]: 0.0}
