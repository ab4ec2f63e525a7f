"""Keeps groups of middling difficulty: neither too hard nor too easy for the policy as it is."""

import math
from collections.abc import Sequence

from pydantic import Field, model_validator

from apps.pipelines.operators.contract import OperatorOptions, Sample, Sifted, sift_groups

FAMILY = "filter"


class Options(OperatorOptions):
    low: float = Field(0.1, ge=0, le=1, description="Least mean success of a group; what is under it is too hard.")
    high: float = Field(0.9, ge=0, le=1, description="Most; what is above it is too easy.")

    @model_validator(mode="after")
    def _in_order(self) -> "Options":
        if self.low > self.high:
            raise ValueError(f"low is {self.low:g}, above high, {self.high:g}")
        return self


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    """Success is reward / full reward, held within 0 and 1."""
    return sift_groups(samples, lambda members: _why_not(members, options))


def _why_not(members: list[Sample], options: Options) -> str:
    mean = math.fsum(min(1.0, max(0.0, sample.reward / sample.full)) for sample in members) / len(members)
    if mean < options.low:
        return f"too hard: mean success {mean:.2f}, under {options.low:g}"
    return f"too easy: mean success {mean:.2f}, above {options.high:g}" if mean > options.high else ""
