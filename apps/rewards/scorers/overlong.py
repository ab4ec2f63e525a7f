"""Charges answers that come near the longest length, more the longer they are (DAPO's soft overlong punishment)."""

from pydantic import Field, model_validator

from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

RANGE = (-1.0, 0.0)


class Options(ScorerOptions):
    max_tokens: int = Field(20_480, ge=1, description="From here on an answer is charged 1. The paper's 16,384 and 4,096.")
    cache_tokens: int = Field(4_096, ge=0, description="Over how many tokens before that the charge grows.")

    @model_validator(mode="after")
    def _fits(self) -> "Options":
        if self.cache_tokens > self.max_tokens:
            raise ValueError(f"cache_tokens {self.cache_tokens} is more than max_tokens {self.max_tokens}")
        return self


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """DAPO (arXiv 2503.14476), equation 13: 0 up to max − cache tokens, then linearly to −1 at max, and −1 beyond."""
    if rollout.tokens is None:
        return Verdict(None, "the length of the answer is not known")
    free = options.max_tokens - options.cache_tokens
    details = {"tokens": rollout.tokens, "free": free}
    if rollout.tokens <= free:
        return Verdict(0.0, "short enough", details)
    if rollout.tokens > options.max_tokens:
        return Verdict(-1.0, f"longer than {options.max_tokens} tokens", details)
    return Verdict((free - rollout.tokens) / options.cache_tokens, f"{rollout.tokens - free} tokens longer than is free", details)
