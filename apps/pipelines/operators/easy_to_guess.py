"""Drops groups whose task can be guessed: correct without reasoning, so the reward is luck.

Kimi k1.5 (arXiv 2501.12599, section 2.1) drops a task whose answer a model that may not reason gets
right within N = 8 tries. The tries are those that `manage.py taskset guesses` made
(apps.feedback.suspicions.guesses), of several policies the best guesser's. Choices among few
answers are right by chance: `max_guess_rate` is for these.
"""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from apps.pipelines.operators.contract import (
    GROUPS,
    TASKS,
    OperatorOptions,
    Sample,
    Sifted,
    sift_groups,
)

FAMILY = "filter"
STAGES = (GROUPS, TASKS)
ASKS = ("guessed",)


class Options(OperatorOptions):
    max_guess_rate: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Maximum share of correct guesses; Kimi k1.5 allows none.",
    )
    unchecked: Literal["keep", "drop"] = Field(
        "keep", description="What to do with groups whose task has not been checked."
    )


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    return sift_groups(samples, lambda members: _why_not(members[0], options))


def _why_not(sample: Sample, options: Options) -> str:
    if sample.guessed is None:
        return "the task has not been checked for guessing" if options.unchecked == "drop" else ""
    right, tries = sample.guessed
    return (
        f"the task was guessed correctly without reasoning in {right} of {tries} tries"
        if right > options.max_guess_rate * tries
        else ""
    )
