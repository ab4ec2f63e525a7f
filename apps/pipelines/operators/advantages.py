"""Rescales the advantages of a batch to a common standard deviation, or clips them.

    normalise   A / (σ + 1e-6),  σ the population's standard deviation of all advantages of the
    step around 0
    clip        max(−max_advantage, min(max_advantage, A)), after that

Dividing by one number keeps which answer is better than the mean of its group; nothing is taken
away, or groups would be pushed for what others earned.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from pydantic import Field, model_validator

from apps.pipelines.operators.contract import BATCH, OperatorOptions, Sample, Sifted

FAMILY = "shape"
STAGES = (BATCH,)
EXACT = 1e-6


class Options(OperatorOptions):
    normalise: bool = Field(
        False, description="Divide advantages by their root mean square over the step."
    )
    max_advantage: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="Maximum absolute advantage. If empty, there is no maximum.",
    )

    @model_validator(mode="after")
    def _does_something(self) -> "Options":
        if not self.normalise and self.max_advantage is None:
            raise ValueError("set `normalise: true`, `max_advantage`, or both")
        return self


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    divisor = _root_mean_square(samples) + EXACT if options.normalise else 1.0
    bound = math.inf if options.max_advantage is None else options.max_advantage
    return Sifted(
        [
            replace(sample, advantage=max(-bound, min(bound, sample.known_advantage / divisor)))
            for sample in samples
        ]
    )


def _root_mean_square(samples: Sequence[Sample]) -> float:
    return math.sqrt(
        math.fsum(sample.known_advantage**2 for sample in samples) / max(1, len(samples))
    )
