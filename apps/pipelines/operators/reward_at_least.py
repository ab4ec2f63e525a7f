"""Keeps what earned enough: samples whose reward reaches a threshold."""

from collections.abc import Sequence

from pydantic import Field

from apps.pipelines.operators.contract import BATCH, EXPERIENCES, GROUPS, OperatorOptions, Sample, Sifted, sift

FAMILY = "filter"
STAGES = (EXPERIENCES, GROUPS, BATCH)


class Options(OperatorOptions):
    threshold: float = Field(0.0, allow_inf_nan=False, description="The least reward that is kept.")


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    """On experiences the rest still counts in the baselines; on groups it does not."""
    least = options.threshold
    return sift(samples, lambda sample: f"its reward, {sample.reward:.4g}, is under {least:g}" if sample.reward < least else "")
