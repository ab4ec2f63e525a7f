"""Keeps groups of medium difficulty, whose success rate is within a range."""

import math
from collections.abc import Sequence

from pydantic import Field, model_validator

from apps.pipelines.operators.contract import OperatorOptions, Sample, Sifted, sift_groups

FAMILY = "filter"


class Options(OperatorOptions):
    low: float = Field(
        0.1,
        ge=0,
        le=1,
        description="Minimum mean success of a group. Groups below it are too hard.",
    )
    high: float = Field(
        0.9,
        ge=0,
        le=1,
        description="Maximum mean success of a group. Groups above it are too easy.",
    )

    @model_validator(mode="after")
    def _in_order(self) -> "Options":
        if self.low > self.high:
            raise ValueError(f"low ({self.low:g}) must not be greater than high ({self.high:g})")
        return self


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    """Drop groups whose success rate, reward / full reward within 0 and 1, is outside the band."""
    return sift_groups(samples, lambda members: _why_not(members, options))


def _why_not(members: list[Sample], options: Options) -> str:
    mean = math.fsum(min(1.0, max(0.0, sample.reward / sample.full)) for sample in members) / len(
        members
    )
    if mean < options.low:
        return f"too hard: mean success {mean:.2f}, below {options.low:g}"
    return (
        f"too easy: mean success {mean:.2f}, above {options.high:g}" if mean > options.high else ""
    )
