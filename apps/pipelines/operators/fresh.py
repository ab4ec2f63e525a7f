"""Keeps rollouts sampled by recent weights; can be stricter than the run's max_staleness."""

from collections.abc import Sequence

from pydantic import Field

from apps.pipelines.operators.contract import (
    BATCH,
    EXPERIENCES,
    GROUPS,
    OperatorOptions,
    Sample,
    Sifted,
    sift,
)

FAMILY = "filter"
STAGES = (GROUPS, EXPERIENCES, BATCH)


class Options(OperatorOptions):
    max_staleness: int = Field(
        0,
        ge=0,
        description=(
            "Maximum number of weight versions published since the oldest one that sampled a token."
        ),
    )


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    return sift(
        samples,
        lambda sample: (
            f"{sample.age} versions old, the maximum is {options.max_staleness}"
            if sample.age > options.max_staleness
            else ""
        ),
    )
