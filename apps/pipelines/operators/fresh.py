"""Keeps what young weights sampled: stricter than the run's bound of staleness, and decided before advantages."""

from collections.abc import Sequence

from pydantic import Field

from apps.pipelines.operators.contract import BATCH, EXPERIENCES, GROUPS, OperatorOptions, Sample, Sifted, sift

FAMILY = "filter"
STAGES = (GROUPS, EXPERIENCES, BATCH)


class Options(OperatorOptions):
    most: int = Field(0, ge=0, description="Versions published since the oldest that sampled a token of it.")


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    return sift(samples, lambda sample: f"{sample.age} versions old, more than {options.most}" if sample.age > options.most else "")
