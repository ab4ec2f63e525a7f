"""A number on a scale whose length the run chooses."""  # lists show this line

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from rftweb.plugins import Answer, Form, FormOptions, People, Question, whole

VERSION = 1  # raise it when the same answer can give another value


class Options(FormOptions):
    points: int = Field(7, ge=2, le=9, description="Number of points on the scale.")


class NumberScale(Form):
    fields = frozenset({"point"})
    asks = "How good is this reply?"
    summary = "a point on a scale"  # beside the form, where a run chooses it

    def read(self, raw: Mapping[str, Any], question: Question, problems: dict[str, str]) -> Answer:
        """Return the answer in canonical form, or add to `problems` what is wrong, by field."""
        points = self.read_options(question.people).points
        return {"point": whole(raw.get("point"), "point", problems, 1, points)}

    def values(self, answer: Answer, shown: Sequence[int], people: People) -> dict[int, float]:
        """Return the value of the rollout, from 0 (worst) to 1."""
        points = self.read_options(people).points
        return {shown[0]: min(1.0, (answer["point"] - 1) / (points - 1))}

    def in_words(self, answer: Answer) -> str:
        return f"point {answer['point']}"

    def choices(self, people: People) -> list[int]:
        """Return the points, for item.html."""
        return list(range(1, self.read_options(people).points + 1))

    def answer_worth(self, value: float, people: People) -> Answer:
        """Return what the simulated rater answers to a reply worth `value`."""
        return {"point": 1 + round(value * (self.read_options(people).points - 1))}
