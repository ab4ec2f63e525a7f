"""Keeps groups with ratings by people, or only the rated replies."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from apps.pipelines.operators.contract import OperatorOptions, Sample, Sifted, sift, sift_groups

FAMILY = "filter"


class Options(OperatorOptions):
    level: Literal["group", "answer"] = Field(
        "group",
        description="Which answers people must have rated: at least one of the group, or each.",
    )


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    if options.level == "answer":
        return sift(samples, lambda sample: "nobody rated it" if sample.by_people is None else "")
    return sift_groups(samples, _unheard)


def _unheard(members: list[Sample]) -> str:
    return (
        "a reply has no rating by a person"
        if all(sample.by_people is None for sample in members)
        else ""
    )
