"""Keeps replies whose length in tokens is within a range."""

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
    min_tokens: int = Field(1, ge=0, description="Minimum length of an answer in tokens.")
    max_tokens: int | None = Field(
        None,
        ge=1,
        description="Maximum length of an answer in tokens. If empty, there is no maximum.",
    )

    @model_validator(mode="after")
    def _in_order(self) -> "Options":
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise ValueError(
                f"min_tokens ({self.min_tokens}) must not be greater than max_tokens"
                f" ({self.max_tokens})"
            )
        return self


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    return sift(samples, lambda sample: _why_not(sample.tokens, options))


def _why_not(tokens: int, options: Options) -> str:
    if tokens < options.min_tokens:
        return f"{tokens} tokens, fewer than {options.min_tokens}"
    return (
        f"{tokens} tokens, more than {options.max_tokens}"
        if options.max_tokens is not None and tokens > options.max_tokens
        else ""
    )
