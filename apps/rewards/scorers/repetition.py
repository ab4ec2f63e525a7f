"""Charges runs of words that were said before: the share of repeated n-grams."""

from pydantic import Field

from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

RANGE = (-1.0, 0.0)
LONGEST_WORD = 40  # characters; what is longer is read letter by letter, as are loops without blanks
LONGEST = 400_000  # characters that are looked at


class Options(ScorerOptions):
    n: int = Field(3, ge=1, le=50, description="Words in a row that count as one n-gram.")
    most: float = Field(1.0, ge=0, le=1, description="The charge where everything is said again.")


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """−most × (1 − different n-grams / n-grams), over lower-case words; 0 where there are fewer than two n-grams."""
    words = _words(rollout.text[:LONGEST])
    total = len(words) - options.n + 1
    if total < 2:
        return Verdict(0.0, "too short to repeat itself")
    different = len(set(zip(*(words[start:] for start in range(options.n)), strict=False)))
    share = 1 - different / total
    details = {"ngrams": total, "different": different}
    return Verdict(-options.most * share or 0.0, f"{share:.0%} of its {options.n}-grams were said before", details)


def _words(text: str) -> list[str]:
    return [part for word in text.lower().split() for part in ([word] if len(word) <= LONGEST_WORD else word)]
