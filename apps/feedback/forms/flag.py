"""Broken, with a reason: `{"reason": …}`. Whatever others say, the rollout then has no reward."""

from collections.abc import Mapping
from typing import Any

from apps.feedback.forms.form import Answer, Asked, Form
from apps.feedback.forms.ranking import MANY
from apps.feedback.forms.words import required, words

LONGEST_REASON = 300  # characters, as a reward without a value keeps of its reason


class Flag(Form):
    name, fields = "flag", frozenset({"reason"})
    most = MANY  # an item that compares several can be flagged as a whole

    def read(self, raw: Mapping[str, Any], asked: Asked, problems: dict[str, str]) -> Answer:
        if not required(raw, "reason", problems, "a few words about what is broken"):
            return {}
        return {"reason": words(raw["reason"], "reason", problems, longest=LONGEST_REASON, needed=True)}
