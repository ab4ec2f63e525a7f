"""The form of a thumb up or down: `{"up": true}`."""

from collections.abc import Mapping, Sequence
from typing import Any

from apps.feedback.forms.form import Answer, Form, Question
from apps.feedback.forms.words import required
from apps.runs.people import People


class Thumbs(Form):
    name = "thumbs"
    asks = "Is this reply good?"
    summary = "good or bad"
    fields = frozenset({"up"})

    def read(self, raw: Mapping[str, Any], question: Question, problems: dict[str, str]) -> Answer:
        right = "must be true (good) or false (bad)"
        if required(raw, "up", problems, right) and type(raw["up"]) is not bool:
            problems["up"] = right
        return {"up": raw.get("up")}

    def values(self, answer: Answer, shown: Sequence[int], people: People) -> dict[int, float]:
        return {shown[0]: 1.0 if answer["up"] else 0.0}
