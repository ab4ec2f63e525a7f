"""Keeps tasks whose difficulty, a number stored with the task, is within a range.

The number is that of a scale (`manage.py taskset difficulty` estimates one as Kimi k1.5 does, the
share of wrong tries), or else of the task's `meta`, such as a grade or a pass rate. What the policy
itself does on a task is told by its groups: `success_band`.
"""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field, model_validator

from apps.pipelines.operators.contract import TASKS, OperatorOptions, Sample, Sifted, sift

FAMILY = "filter"
STAGES = (TASKS,)
ASKS = ("scales",)


class Options(OperatorOptions):
    scale: str = Field(
        "difficulty",
        min_length=1,
        max_length=60,
        description="Name of a difficulty scale, or of a number in the tasks' meta.",
    )
    low: float | None = Field(
        None,
        allow_inf_nan=False,
        description="Lowest value to keep. If empty, there is no minimum.",
    )
    high: float | None = Field(
        None,
        allow_inf_nan=False,
        description="Highest value to keep. If empty, there is no maximum.",
    )
    unknown: Literal["drop", "keep"] = Field(
        "drop", description="What to do with tasks without the number."
    )

    @model_validator(mode="after")
    def _in_order(self) -> "Options":
        if self.low is None and self.high is None:
            raise ValueError("set `low`, `high` or both")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"low ({self.low:g}) must not be greater than high ({self.high:g})")
        return self


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    return sift(samples, lambda sample: _why_not(sample, options))


def _why_not(sample: Sample, options: Options) -> str:
    number = sample.scales.get(options.scale, sample.meta.get(options.scale))
    if isinstance(number, bool) or not isinstance(number, int | float):
        return f"the task has no number {options.scale!r}" if options.unknown == "drop" else ""
    if options.low is not None and number < options.low:
        return f"{options.scale} is {number:g}, below {options.low:g}"
    return (
        f"{options.scale} is {number:g}, above {options.high:g}"
        if options.high is not None and number > options.high
        else ""
    )
