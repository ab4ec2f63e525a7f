"""The form of several named scales: `{"scales": {"polite": 4, …}}`, each within its range.

Its value is the weighted mean of all scales, each mapped to 0 (its low) to 1 (its high); ranges and
weights come from the run's plan.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from apps.feedback.forms.form import Answer, Form, Question
from apps.feedback.forms.words import required, whole
from apps.runs.people import People


class Rubric(Form):
    name = "rubric"
    asks = "Rate the reply on each scale"
    summary = "several scales"
    fields = frozenset({"scales"})

    def read(self, raw: Mapping[str, Any], question: Question, problems: dict[str, str]) -> Answer:
        scales = {scale.name: scale for scale in question.people.rubric}
        right = f"an object with a value for each of {', '.join(scales)}"
        if not required(raw, "scales", problems, right):
            return {}
        scale_values = raw["scales"]
        if not isinstance(scale_values, dict):
            problems["scales"] = f"must be {right}"
            return {}
        for foreign in sorted(str(name)[:40] for name in scale_values.keys() - scales.keys())[:10]:
            problems[f"scales.{foreign}"] = f"is not a scale; scales: {', '.join(scales)}"
        answer = {}
        for name, scale in scales.items():
            field = f"scales.{name}"
            if name not in scale_values:
                problems[field] = f"is missing: a whole number from {scale.low} to {scale.high}"
            else:
                answer[name] = whole(scale_values[name], field, problems, scale.low, scale.high)
        return {"scales": answer}

    def values(self, answer: Answer, shown: Sequence[int], people: People) -> dict[int, float]:
        scale_values = answer["scales"]
        scales = [scale for scale in people.rubric if scale.name in scale_values]
        if not scales:  # the plan has changed: it has none of this answer's scales any more
            return {}
        weight = math.fsum(scale.weight for scale in scales)
        worth = [
            scale.weight * (scale_values[scale.name] - scale.low) / (scale.high - scale.low)
            for scale in scales
        ]
        return {shown[0]: min(max(math.fsum(worth) / weight, 0.0), 1.0)}
