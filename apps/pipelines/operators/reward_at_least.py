"""Keeps samples whose reward reaches a threshold."""

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
STAGES = (EXPERIENCES, GROUPS, BATCH)


class Options(OperatorOptions):
    threshold: float = Field(0.0, allow_inf_nan=False, description="Lowest reward to keep.")


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    """Drop samples with a reward below the threshold.

    On experiences the dropped ones still count in the baselines; on groups they do not.
    """
    threshold = options.threshold
    return sift(
        samples,
        lambda sample: (
            f"the reward {sample.reward:.4g} is below {threshold:g}"
            if sample.reward < threshold
            else ""
        ),
    )
