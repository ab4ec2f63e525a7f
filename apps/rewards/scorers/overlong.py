"""Penalizes replies near the length limit, more the longer they are (DAPO's soft penalty).

Where a task bounds its answers more tightly (`meta.limits.max_tokens`), that is the longest length,
and the charge grows over the same share of it.
"""

from pydantic import Field, model_validator

from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict
from apps.tasksets.limits import BadLimits, limits_in

RANGE = (-1.0, 0.0)
VERSION = 2


class Options(ScorerOptions):
    max_tokens: int = Field(
        20_480,
        ge=1,
        description=(
            "Length from which the penalty is 1. The paper uses 16,384 with 4,096 cache tokens."
        ),
    )
    cache_tokens: int = Field(
        4_096,
        ge=0,
        description=(
            "Number of tokens before that length over which the penalty grows from 0 to 1."
        ),
    )

    @model_validator(mode="after")
    def _fits(self) -> "Options":
        if self.cache_tokens > self.max_tokens:
            raise ValueError(
                f"cache_tokens {self.cache_tokens} is more than max_tokens {self.max_tokens}"
            )
        return self


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """Return the length penalty of DAPO (arXiv 2503.14476), equation 13.

    It is 0 up to max − cache tokens, then falls linearly to −1 at max, and is −1 beyond.
    """
    if rollout.tokens is None:
        return Verdict(None, "the length of the answer is unknown")
    try:
        max_tokens, cache = _bounds(task, options)
    except BadLimits as why:
        return Verdict(None, str(why))
    free_tokens = max_tokens - cache
    details = {"tokens": rollout.tokens, "free": free_tokens}
    if rollout.tokens <= free_tokens:
        return Verdict(0.0, "short enough", details)
    if rollout.tokens > max_tokens:
        return Verdict(-1.0, f"longer than {max_tokens} tokens", details)
    return Verdict(
        (free_tokens - rollout.tokens) / cache,
        f"{rollout.tokens - free_tokens} tokens above the length without penalty",
        details,
    )


def _bounds(task: TaskView, options: Options) -> tuple[int, int]:
    """Return the longest length, and over how many tokens before it the charge grows.

    Raises BadLimits.
    """
    task_limit = limits_in(task.meta).max_tokens
    if task_limit is None or task_limit >= options.max_tokens:
        return options.max_tokens, options.cache_tokens
    return task_limit, options.cache_tokens * task_limit // options.max_tokens
