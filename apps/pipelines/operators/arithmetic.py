"""Shapes the reward by another number: what a scorer said, or the answer's length, added, taken away, multiplied or divided by."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pydantic import Field

from apps.pipelines.operators.contract import OperatorOptions, Sample, Sifted

FAMILY = "shape"
TOKENS, PEOPLE = "tokens", "people"


class Options(OperatorOptions):
    by: str = Field(max_length=60, description="A scorer's name, `people` for what people say, or `tokens` for the length.")
    do: Literal["add", "subtract", "multiply", "divide"] = Field("add", description="What is done with weight × that number.")
    weight: float = Field(1.0, allow_inf_nan=False, description="Of the number.")


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    """A sample of which the number is not known, or would be divided by nothing, keeps its reward."""
    return Sifted([_shaped(sample, options) for sample in samples])


def _shaped(sample: Sample, options: Options) -> Sample:
    number = _number(sample, options.by)
    if number is None or (options.do == "divide" and options.weight * number == 0):
        return sample
    return replace(sample, reward=DOES[options.do](sample.reward, options.weight * number))


def _number(sample: Sample, by: str) -> float | None:
    if by == TOKENS:
        return float(sample.tokens)
    return sample.by_people if by == PEOPLE else sample.by_scorer.get(by)


DOES = {
    "add": lambda reward, number: reward + number,
    "subtract": lambda reward, number: reward - number,
    "multiply": lambda reward, number: reward * number,
    "divide": lambda reward, number: reward / number,
}
