"""Limits a step to a number of tokens, in whole groups.

A group that does not fit is left out and a later, smaller one may fit. The first group always fits:
a step without any would learn nothing.
"""

from collections.abc import Sequence

from pydantic import Field

from apps.pipelines.operators.contract import (
    BATCH,
    OperatorOptions,
    Sample,
    Sifted,
    group_samples,
    sift,
)

FAMILY = "filter"
STAGES = (BATCH,)


class Options(OperatorOptions):
    max_tokens: int = Field(
        ge=1,
        description="Maximum total number of answer tokens per step. Prompts are not counted.",
    )


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    reasons: dict[int, str] = {}
    used = 0
    for number, members in group_samples(samples).items():
        tokens = sum(sample.tokens for sample in members)
        if used and used + tokens > options.max_tokens:
            reasons[number] = (
                f"the group's {tokens} tokens plus {used} of earlier groups exceed"
                f" {options.max_tokens}"
            )
        else:
            used += tokens
    return sift(samples, lambda sample: reasons.get(sample.group, ""))
