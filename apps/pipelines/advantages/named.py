"""Advantages from several named rewards per rollout."""

import math
from collections.abc import Mapping, Sequence

from apps.pipelines.advantages.batch import unflatten
from apps.pipelines.advantages.group import EPSILON, grpo
from apps.pipelines.advantages.spread import centred, deviation


def gdpo(
    groups: Sequence[Sequence[Mapping[str, float]]],
    *,
    weights: Mapping[str, float] | None = None,
    epsilon: float = EPSILON,
    whiten: bool = False,
) -> list[list[float]]:
    """Return A_i = Σ_k w_k · (r_ik − mean(r_k)) / (std(r_k) + ε): normalise each reward, then sum.

    Summing first lets the reward with the largest spread dominate the others (GDPO, arXiv
    2601.05242, §3). The std is over n − 1.

    - `groups`: per rollout {name: value}, the same names for all rollouts of a group.
    - `weights`: by name; None: 1 each.
    - `whiten`: last, subtract the batch's mean and divide by its std + ε, so that the size does not
      grow with the number of rewards (the paper's last step).

    A group of one: r_k / (1 + ε) summed. A reward that is equal for all rollouts adds 0. Raises
    ValueError for a name that a rollout lacks, or that has no weight.
    """
    sums = [_normalised_sum(group, weights, epsilon) for group in groups]
    if not whiten or not any(sums):
        return sums
    everything = [value for group in sums for value in group]
    divisor = deviation(everything) + epsilon
    return unflatten([difference / divisor for difference in centred(everything)], sums)


def _normalised_sum(
    group: Sequence[Mapping[str, float]], weights: Mapping[str, float] | None, epsilon: float
) -> list[float]:
    names = sorted(set().union(*group))
    factors = dict.fromkeys(names, 1.0) if weights is None else weights
    columns = []
    for name in names:
        if name not in factors:
            raise ValueError(
                f"the reward {name!r} has no weight; weights are given for"
                f" {', '.join(sorted(factors))}"
            )
        if any(name not in rewards for rewards in group):
            raise ValueError(
                f"a rollout of the group lacks the reward {name!r} that another one has"
            )
        (scores,) = grpo([[rewards[name] for rewards in group]], epsilon=epsilon)
        assert scores is not None  # without a threshold, no group is dropped
        columns.append([factors[name] * score for score in scores])
    return [math.fsum(row) for row in zip(*columns, strict=True)]
