"""The form of one to five stars: `{"stars": 4}`, worth (stars − 1) / 4."""

from collections.abc import Mapping, Sequence
from typing import Any

from apps.feedback.forms.form import Answer, Form, Question
from apps.feedback.forms.words import required, whole
from apps.runs.people import People

MAX_STARS = 5


class Stars(Form):
    name = "stars"
    asks = "How good is this reply?"
    summary = "1 to 5 for one reply"
    fields = frozenset({"stars"})

    def read(self, raw: Mapping[str, Any], question: Question, problems: dict[str, str]) -> Answer:
        if not required(raw, "stars", problems, f"a whole number from 1 to {MAX_STARS}"):
            return {}
        return {"stars": whole(raw["stars"], "stars", problems, 1, MAX_STARS)}

    def values(self, answer: Answer, shown: Sequence[int], people: People) -> dict[int, float]:
        return {shown[0]: (answer["stars"] - 1) / (MAX_STARS - 1)}
