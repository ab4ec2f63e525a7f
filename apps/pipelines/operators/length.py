"""Keeps answers of a length, in tokens."""

from collections.abc import Sequence

from pydantic import Field, model_validator

from apps.pipelines.operators.contract import (
    BATCH,
    EXPERIENCES,
    GROUPS,
    OperatorOptions,
    Sample,
    Sifted,
    sift,
)

FAMILY = "filter"
STAGES = (EXPERIENCES, GROUPS, BATCH)


class Options(OperatorOptions):
    fewest: int = Field(1, ge=0, description="Minimum length of an answer in tokens.")
    most: int | None = Field(
        None,
        ge=1,
        description="Maximum length of an answer in tokens. If empty, there is no maximum.",
    )

    @model_validator(mode="after")
    def _in_order(self) -> "Options":
        if self.most is not None and self.fewest > self.most:
            raise ValueError(f"fewest ({self.fewest}) must not be greater than most ({self.most})")
        return self


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    return sift(samples, lambda sample: _why_not(sample.tokens, options))


def _why_not(tokens: int, options: Options) -> str:
    if tokens < options.fewest:
        return f"{tokens} tokens, fewer than {options.fewest}"
    return (
        f"{tokens} tokens, more than {options.most}"
        if options.most is not None and tokens > options.most
        else ""
    )
