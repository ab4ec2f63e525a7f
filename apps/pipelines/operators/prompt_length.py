"""Keeps tasks whose prompt, all that the user says, is of a length, in characters or in words."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field, model_validator

from apps.pipelines.operators.contract import TASKS, OperatorOptions, Sample, Sifted, sift

FAMILY = "filter"
STAGES = (TASKS,)


class Options(OperatorOptions):
    fewest: int = Field(1, ge=0, description="Minimum length of the prompt.")
    most: int | None = Field(
        None, ge=1, description="Maximum length of the prompt. If empty, there is no maximum."
    )
    unit: Literal["characters", "words"] = Field(
        "characters", description="Unit of the length. Words are separated by whitespace."
    )

    @model_validator(mode="after")
    def _in_order(self) -> "Options":
        if self.most is not None and self.fewest > self.most:
            raise ValueError(f"fewest ({self.fewest}) must not be greater than most ({self.most})")
        return self


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    return sift(samples, lambda sample: _why_not(sample.text, options))


def _why_not(prompt: str, options: Options) -> str:
    count = len(prompt.split() if options.unit == "words" else prompt)
    if count < options.fewest:
        return f"the prompt has {count} {options.unit}, fewer than {options.fewest}"
    if options.most is not None and count > options.most:
        return f"the prompt has {count} {options.unit}, more than {options.most}"
    return ""
