"""Drops replies whose absolute advantage is zero or small, since they hardly change weights.

An answer without an advantage adds no policy gradient and still counts in every mean over tokens or
rows, so that a batch of many such takes smaller steps. Its part of the loss's other terms (a
divergence, entropy) goes with it.
"""

from collections.abc import Sequence

from pydantic import Field

from apps.pipelines.operators.contract import (
    BATCH,
    EXPERIENCES,
    OperatorOptions,
    Sample,
    Sifted,
    sift,
)

FAMILY = "filter"
STAGES = (BATCH, EXPERIENCES)


class Options(OperatorOptions):
    threshold: float = Field(
        0.0,
        ge=0,
        allow_inf_nan=False,
        description="Minimum absolute advantage; it must be above this value.",
    )


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    return sift(samples, lambda sample: _why_not(sample.known_advantage, options.threshold))


def _why_not(advantage: float, threshold: float) -> str:
    return (
        f"the absolute advantage {advantage:.4g} is not above {threshold:g}"
        if abs(advantage) <= threshold
        else ""
    )
