"""Penalizes repeated text by the share of repeated n-grams."""

from pydantic import Field

from apps.rewards.repetition import ngrams
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

RANGE = (-1.0, 0.0)
VERSION = 3


class Options(ScorerOptions):
    ngram_size: int = Field(3, ge=1, le=50, description="Number of consecutive words in an n-gram.")
    max_penalty: float = Field(1.0, ge=0, le=1, description="Penalty if everything is repeated.")


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """Return −max_penalty × (1 − different n-grams / n-grams), over lower-case words.

    0 where there are fewer than two n-grams.
    """
    total, different = ngrams(rollout.text, options.ngram_size)
    if total < 2:
        return Verdict(0.0, "too short for a repetition")
    share = 1 - different / total
    details = {"ngrams": total, "different": different}
    return Verdict(
        -options.max_penalty * share or 0.0,
        f"{share:.0%} of the {options.ngram_size}-grams are repetitions",
        details,
    )
