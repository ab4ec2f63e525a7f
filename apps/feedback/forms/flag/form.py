"""The form that flags a reply as broken: `{"reason": …}`. A flagged rollout has no reward.

Among several, `{"reason": …, "rollout": id}` names one; without it all are flagged.
"""

from collections.abc import Mapping
from typing import Any

from apps.feedback.forms.form import Answer, Form, Question
from apps.feedback.forms.ranking.form import MANY
from apps.feedback.forms.words import one_of, required, words

MAX_REASON_LENGTH = 300  # characters, as a reward without a value keeps of its reason


class Flag(Form):
    name = "flag"
    fields = frozenset({"reason", "rollout"})
    max_rollouts = MANY  # an item that compares several can be flagged as a whole

    def read(self, raw: Mapping[str, Any], question: Question, problems: dict[str, str]) -> Answer:
        if not required(raw, "reason", problems, "a short text about what is broken"):
            return {}
        answer: Answer = {
            "reason": words(
                raw["reason"], "reason", problems, max_length=MAX_REASON_LENGTH, needed=True
            )
        }
        if "rollout" in raw:
            answer["rollout"] = one_of(raw["rollout"], "rollout", problems, question.shown)
        return answer
