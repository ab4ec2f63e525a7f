"""Keeps groups whose rewards differ; equal rewards give no advantage to learn from."""

from collections.abc import Sequence
from statistics import pstdev

from pydantic import Field

from apps.pipelines.operators.contract import OperatorOptions, Sample, Sifted, sift_groups

FAMILY = "filter"


class Options(OperatorOptions):
    std_threshold: float = Field(
        0.0,
        ge=0,
        allow_inf_nan=False,
        description=(
            "Minimum standard deviation of the group's rewards; it must be above this value."
        ),
    )


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    """Drop groups whose rewards are too close together; a group of one has no spread."""
    return sift_groups(
        samples,
        lambda members: _why_not([sample.reward for sample in members], options.std_threshold),
    )


def _why_not(rewards: list[float], std_threshold: float) -> str:
    return (
        f"the standard deviation of the rewards is not above {std_threshold:g}"
        if pstdev(rewards) <= std_threshold
        else ""
    )
