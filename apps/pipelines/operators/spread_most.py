"""Keeps the replies of each group that have the largest variance of rewards.

Max-variance down-sampling (PODS, arXiv 2504.13818): the subset of that size with the largest
variance is always some of the highest rewards together with some of the lowest.
"""

from collections.abc import Sequence

from pydantic import Field

from apps.pipelines.operators.contract import OperatorOptions, Sample, Sifted, group_samples, sift

FAMILY = "filter"


class Options(OperatorOptions):
    keep: int = Field(
        ge=2, description="Number of answers to keep per group. Smaller groups are kept whole."
    )


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    """Keep in each group the subset whose rewards are spread most widely.

    Of equally wide subsets, take the one with more of the highest; of equal rewards, the earlier
    sample.
    """
    removed = {
        rollout
        for members in group_samples(samples).values()
        for rollout in _between(members, options.keep)
    }
    return sift(
        samples,
        lambda sample: (
            "other answers of the group have more distant rewards"
            if sample.rollout in removed
            else ""
        ),
    )


def _between(members: list[Sample], keep: int) -> set[int]:
    ranked = sorted(members, key=lambda sample: -sample.reward)
    if len(ranked) <= keep:
        return set()
    tops = range(keep, -1, -1)
    best = max(
        tops, key=lambda top: _variance([sample.reward for sample in _both_ends(ranked, top, keep)])
    )
    kept_ids = {sample.rollout for sample in _both_ends(ranked, best, keep)}
    return {sample.rollout for sample in members} - kept_ids


def _both_ends(ranked: list[Sample], top: int, keep: int) -> list[Sample]:
    return ranked[:top] + ranked[len(ranked) - (keep - top) :]


def _variance(values: list[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values)
