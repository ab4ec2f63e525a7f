"""Handles replies cut off at the length limit: drops, masks or penalizes them.

DAPO (arXiv 2503.14476, §3.4) finds that what is cut is noise as a negative example: `mask` is its
overlong filtering.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pydantic import Field

from apps.pipelines.operators.contract import OperatorOptions, Sample, Sifted, sift

FAMILY = "clean"
CUT = {
    "length": "truncated at the maximum length",
    "repetition": "stopped in a loop",
    "time": "stopped by the time limit",
}


class Options(OperatorOptions):
    action: Literal["drop", "mask", "penalise"] = Field(
        "mask",
        description=(
            "Drop the rollout, use it only in the group's baseline, or subtract `penalty` "
            "from its reward."
        ),
    )
    stop_reasons: tuple[Literal["length", "repetition", "time"], ...] = Field(
        ("length", "repetition", "time"),
        min_length=1,
        description=(
            "Reasons that count: maximum length, a loop (`sampling.repeats`), or the time "
            "limit (`sampling.time_s` or the task's own)."
        ),
    )
    penalty: float = Field(
        0.5,
        ge=0,
        allow_inf_nan=False,
        description="Amount to subtract from the reward with `penalise`.",
    )


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    if options.action == "drop":
        return sift(samples, lambda sample: _why_cut(sample, options))
    return Sifted(
        [
            _mark_sample(sample, why, options) if (why := _why_cut(sample, options)) else sample
            for sample in samples
        ]
    )


def _mark_sample(sample: Sample, why: str, options: Options) -> Sample:
    return (
        replace(sample, silent=why)
        if options.action == "mask"
        else replace(sample, reward=sample.reward - options.penalty)
    )


def _why_cut(sample: Sample, options: Options) -> str:
    return CUT[sample.stop_reason] if sample.stop_reason in options.stop_reasons else ""
