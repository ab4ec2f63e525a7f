"""Holds an update to a number of tokens: its groups in their order, as wholes, for as long as there is room.

A group that does not fit is left out and a later, smaller one may fit. The first group always fits: an update without any would
learn nothing.
"""

from collections.abc import Sequence

from pydantic import Field

from apps.pipelines.operators.contract import BATCH, OperatorOptions, Sample, Sifted, grouped, sift

FAMILY = "filter"
STAGES = (BATCH,)


class Options(OperatorOptions):
    most: int = Field(ge=1, description="Tokens of all answers of an update together; prompts are not counted.")


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    left: dict[int, str] = {}
    taken = 0
    for number, members in grouped(samples).items():
        tokens = sum(one.tokens for one in members)
        if taken and taken + tokens > options.most:
            left[number] = f"its group's {tokens} tokens and {taken} before them are more than {options.most}"
        else:
            taken += tokens
    return sift(samples, lambda sample: left.get(sample.group, ""))
