"""Keeps the texts that a named filter of the data-juicer package keeps.

An example is `word_repetition_filter`.

Data-Juicer (arXiv 2309.02033) gives a text statistics and keeps those whose statistics lie in a
range: both are its filter's own, with the defaults that it has there. They are asked for in a
process of the package's own environment (apps.pipelines.data_juicer). Those that can be named look
at nothing but the text and need nothing but themselves; no model, no list of words, no network.
"""

import json
from collections.abc import Sequence
from typing import Literal, get_args

from pydantic import Field, JsonValue, field_validator

from apps.pipelines.operators.contract import (
    EXPERIENCES,
    GROUPS,
    TASKS,
    OperatorOptions,
    Sample,
    Sifted,
    sift,
)

FAMILY = "filter"
STAGES = (EXPERIENCES, GROUPS, TASKS)
ASKS = ("filtered",)

Op = Literal[
    "alphanumeric_filter",
    "average_line_length_filter",
    "character_repetition_filter",
    "maximum_line_length_filter",
    "special_characters_filter",
    "text_length_filter",
    "word_repetition_filter",
    "words_num_filter",
]


OPS = get_args(Op)


class Options(OperatorOptions):
    op: Op = Field(description=f"Name of the data-juicer op, one of {', '.join(OPS)}.")
    args: dict[str, JsonValue] = Field(
        {}, max_length=20, description="Arguments of the op by name."
    )

    @field_validator("op", mode="before")
    @classmethod
    def _can_be_asked(cls, value: object) -> object:
        if value not in OPS:
            unsupported = (
                "ops that change text, process images, audio or video, or need models, word "
                "lists or the network are not supported"
            )
            raise ValueError(
                f"{value!r} is not supported; choose one of {', '.join(OPS)}; {unsupported}"
            )
        return value

    @property
    def key(self) -> str:
        """Return the key under which the filter's answers are found."""
        return json.dumps([self.op, self.args], sort_keys=True)


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    key = options.key
    return sift(samples, lambda sample: _why_not(sample, options.op, key))


def _why_not(sample: Sample, op: str, key: str) -> str:
    """Return why the filter drops a sample; "" keeps it.

    Raises LookupError if the filter failed, so that nothing passes unnoticed.
    """
    result = sample.filtered[key][sample.text]
    if result.failed:
        raise LookupError(f"{op}: {result.failed}")
    return (
        ""
        if result.is_kept
        else f"{op}: {', '.join(f'{name} {_short(value)}' for name, value in result.stats.items())}"
    )


def _short(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")
