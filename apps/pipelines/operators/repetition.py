"""Answers that say the same again and again: too large a share of repeated n-grams."""

from collections.abc import Sequence

from pydantic import Field

from apps.pipelines.operators.contract import GROUPS, TASKS, OperatorOptions, Sample, Sifted, sift
from apps.rewards.repetition import repeated_share

FAMILY = "clean"
STAGES = (GROUPS, TASKS)


class Options(OperatorOptions):
    n: int = Field(4, ge=1, le=50, description="Words in a row that count as one n-gram.")
    most: float = Field(0.5, ge=0, le=1, description="Share of n-grams said before that is let through.")


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    """The share is 1 − different n-grams / n-grams, over lower-case words (apps.rewards.repetition)."""
    return sift(samples, lambda sample: _why_not(sample.text, options))


def _why_not(text: str, options: Options) -> str:
    share = repeated_share(text, options.n)
    return f"{share:.0%} of its {options.n}-grams were said before" if share > options.most else ""
