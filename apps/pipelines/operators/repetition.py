"""Filters replies in which too large a share of n-grams is repeated."""

from collections.abc import Sequence

from pydantic import Field

from apps.pipelines.operators.contract import GROUPS, TASKS, OperatorOptions, Sample, Sifted, sift
from apps.rewards.repetition import repeated_share

FAMILY = "clean"
STAGES = (GROUPS, TASKS)


class Options(OperatorOptions):
    ngram_size: int = Field(4, ge=1, le=50, description="Number of consecutive words in an n-gram.")
    max_repeated_share: float = Field(
        0.5, ge=0, le=1, description="Maximum share of repeated n-grams."
    )


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    """Drop answers with too large a share of repeated n-grams (apps.rewards.repetition).

    The share is 1 − different n-grams / n-grams, over lower-case words.
    """
    return sift(samples, lambda sample: _why_not(sample.text, options))


def _why_not(text: str, options: Options) -> str:
    share = repeated_share(text, options.ngram_size)
    return (
        f"{share:.0%} of the {options.ngram_size}-grams are repetitions"
        if share > options.max_repeated_share
        else ""
    )
