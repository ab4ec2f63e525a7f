"""Keeps tasks whose user prompt has a length within a range, in characters or words."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field, model_validator

from apps.pipelines.operators.contract import TASKS, OperatorOptions, Sample, Sifted, sift

FAMILY = "filter"
STAGES = (TASKS,)


class Options(OperatorOptions):
    min_length: int = Field(1, ge=0, description="Minimum length of the prompt.")
    max_length: int | None = Field(
        None, ge=1, description="Maximum length of the prompt. If empty, there is no maximum."
    )
    unit: Literal["characters", "words"] = Field(
        "characters", description="Unit of the length. Words are separated by whitespace."
    )

    @model_validator(mode="after")
    def _in_order(self) -> "Options":
        if self.max_length is not None and self.min_length > self.max_length:
            raise ValueError(
                f"min_length ({self.min_length}) must not be greater than max_length"
                f" ({self.max_length})"
            )
        return self


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    return sift(samples, lambda sample: _why_not(sample.text, options))


def _why_not(prompt: str, options: Options) -> str:
    count = len(prompt.split() if options.unit == "words" else prompt)
    if count < options.min_length:
        return f"the prompt has {count} {options.unit}, fewer than {options.min_length}"
    if options.max_length is not None and count > options.max_length:
        return f"the prompt has {count} {options.unit}, more than {options.max_length}"
    return ""
