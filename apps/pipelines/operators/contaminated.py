"""Drops groups whose task is also in an evaluation set, exactly or nearly.

A policy that has learned the test is no longer tested by it.

    near   |G(e) ∩ G(t)| / |G(e)| ≥ share, G the set of a prompt's word 8-grams, e a task of the
    evaluation set, t the group's

Broder's containment of the evaluation task in the group's, with PaLM's 8 words and 0.7 (Chowdhery
et al. 2022, section 8), as `manage.py taskset overlap` has it (apps.tasksets.overlap): a prompt of
fewer than 8 words is compared exactly alone, and 8-grams that over a hundred evaluation tasks share
are their template. Prompts alone are compared: all tasks of an environment that begin with the same
words are one task to it, also where a hidden answer tells them apart.
"""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from apps.pipelines.operators.contract import (
    GROUPS,
    TASKS,
    OperatorOptions,
    Sample,
    Sifted,
    sift_groups,
)
from apps.tasksets.overlap import THRESHOLD

FAMILY = "filter"
STAGES = (GROUPS, TASKS)
ASKS = ("also_in",)


Slug = Annotated[str, Field(pattern=r"^[-a-zA-Z0-9_]{1,50}$")]


class Options(OperatorOptions):
    tasksets: tuple[Slug, ...] = Field(
        min_length=1,
        max_length=10,
        description="Slugs of evaluation tasksets of the same project.",
    )
    share: float = Field(
        THRESHOLD,
        gt=0,
        le=1,
        description=(
            "Share of an evaluation task's 8-grams in the prompt from which the "
            "prompt counts as contaminated."
        ),
    )


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    return sift_groups(samples, lambda members: _why_not(members[0], options))


def _why_not(sample: Sample, options: Options) -> str:
    """Return why a sample is dropped: it overlaps an evaluation set; "" keeps it.

    Raises LookupError for a set that cannot be read any more, so that nothing passes unnoticed.
    """
    for name in options.tasksets:
        if name not in sample.also_in:
            raise LookupError(
                f"evaluation set {name!r} no longer exists or is too large; choose another one"
            )
        pair = sample.also_in[name]
        if pair and pair.is_exact:
            return f"identical to task {pair.checked} of evaluation set {name}"
        if pair and pair.share >= options.share:
            return f"contains {pair.share:.0%} of task {pair.checked} of evaluation set {name}"
    return ""
