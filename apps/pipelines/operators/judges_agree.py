"""Keeps replies on which two or more scorers agree."""

from collections.abc import Sequence

from pydantic import Field, model_validator

from apps.pipelines.operators.contract import OperatorOptions, Sample, Sifted, sift

FAMILY = "filter"


class Options(OperatorOptions):
    scorers: tuple[str, ...] = Field(min_length=2, max_length=10, description="Scorers to compare.")
    max_difference: float = Field(
        0.5,
        ge=0,
        allow_inf_nan=False,
        description="Maximum difference between the lowest and the highest value.",
    )

    @model_validator(mode="after")
    def _different(self) -> "Options":
        if len(set(self.scorers)) < len(self.scorers):
            raise ValueError("scorers: list each scorer once")
        return self


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    """Drop answers on which the judges disagree; a judge without a value is ignored."""
    return sift(samples, lambda sample: _why_not(sample, options))


def _why_not(sample: Sample, options: Options) -> str:
    values = {
        name: value for name in options.scorers if (value := sample.by_scorer.get(name)) is not None
    }
    if len(values) < 2:
        return ""
    low = min(values, key=values.__getitem__)
    high = max(values, key=values.__getitem__)
    gap = values[high] - values[low]
    parted = (
        f"{high} gives {values[high]:.3g}, {low} {values[low]:.3g}: the difference is above "
        f"{options.max_difference:g}"
    )
    return parted if gap > options.max_difference else ""
