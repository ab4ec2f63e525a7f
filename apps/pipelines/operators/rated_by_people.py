"""Keeps what people have judged: a group of which they were heard, or only the answers that they judged themselves."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from apps.pipelines.operators.contract import OperatorOptions, Sample, Sifted, sift, sift_groups

FAMILY = "filter"


class Options(OperatorOptions):
    each: Literal["group", "answer"] = Field("group", description="What must have been judged: one answer of the group, or each.")


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    if options.each == "answer":
        return sift(samples, lambda sample: "nobody judged it" if sample.by_people is None else "")
    return sift_groups(samples, _unheard)


def _unheard(members: list[Sample]) -> str:
    return "nobody judged one of its answers" if all(sample.by_people is None for sample in members) else ""
