"""Answers that were cut at their longest length: left out, not learned from, or charged.

DAPO (arXiv 2503.14476, §3.4) finds that what is cut is noise as a negative example: `mask` is its overlong filtering.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pydantic import Field

from apps.pipelines.operators.contract import OperatorOptions, Sample, Sifted, sift

FAMILY = "clean"
CUT = "cut at its longest length"


class Options(OperatorOptions):
    do: Literal["drop", "mask", "penalise"] = Field(
        "mask", description="Leave it out; let it count in its group's baseline alone; or take `penalty` from its reward."
    )
    penalty: float = Field(0.5, ge=0, allow_inf_nan=False, description="Taken from the reward, with `penalise`.")


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    if options.do == "drop":
        return sift(samples, lambda sample: CUT if _is_cut(sample) else "")
    return Sifted([_marked(sample, options) if _is_cut(sample) else sample for sample in samples])


def _marked(sample: Sample, options: Options) -> Sample:
    return replace(sample, silent=CUT) if options.do == "mask" else replace(sample, reward=sample.reward - options.penalty)


def _is_cut(sample: Sample) -> bool:
    return sample.stop_reason == "length"
