"""Combines the reward with another number: a scorer's value or the reply's length.

The number is added, subtracted, multiplied or divided by.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pydantic import Field

from apps.pipelines.operators.contract import OperatorOptions, Sample, Sifted

FAMILY = "shape"
TOKENS = "tokens"
PEOPLE = "people"


class Options(OperatorOptions):
    operand: str = Field(
        max_length=60,
        description=(
            "Name of a scorer, `people` for people's ratings, or `tokens` for the length."
        ),
    )
    operation: Literal["add", "subtract", "multiply", "divide"] = Field(
        "add", description="How weight × that number is applied to the reward."
    )
    weight: float = Field(1.0, allow_inf_nan=False, description="Weight of the number.")


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    """Compute new rewards.

    A sample keeps its reward if the number is not known, or would be divided by zero.
    """
    return Sifted([_with_new_reward(sample, options) for sample in samples])


def _with_new_reward(sample: Sample, options: Options) -> Sample:
    number = _number(sample, options.operand)
    if number is None or (options.operation == "divide" and options.weight * number == 0):
        return sample
    return replace(sample, reward=DOES[options.operation](sample.reward, options.weight * number))


def _number(sample: Sample, operand: str) -> float | None:
    if operand == TOKENS:
        return float(sample.tokens)
    return sample.by_people if operand == PEOPLE else sample.by_scorer.get(operand)


DOES = {
    "add": lambda reward, number: reward + number,
    "subtract": lambda reward, number: reward - number,
    "multiply": lambda reward, number: reward * number,
    "divide": lambda reward, number: reward / number,
}
