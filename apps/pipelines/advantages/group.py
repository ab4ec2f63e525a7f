"""Advantages that compare each rollout with its group, from one reward per rollout.

`groups`: G groups of n_g rewards. Each function returns the same shape, with None for a dropped
group.
"""

import math
import random
from collections.abc import Callable, Sequence

from apps.pipelines.advantages.spread import centred, check_rewards, deviation, mean

EPSILON = 1e-6
Groups = Sequence[Sequence[float]]
Advantages = list[list[float] | None]


def grpo(
    groups: Groups,
    *,
    scale: str = "group",
    epsilon: float = EPSILON,
    std_threshold: float | None = None,
    rank_penalty: float = 0.0,
    logprobs: Groups | None = None,
) -> Advantages:
    """Return how much better each rollout did than its group, in standard deviations.

    A_i = (r_i − mean(r)) / (std + ε), std over n − 1 (DeepSeekMath, arXiv 2402.03300, §4.1.1).

    - `scale`: `group`: std of the group; `batch`: std of all rewards of the batch, with the mean of
      the group; `none`: no division (Dr. GRPO, arXiv 2503.20783).
    - `std_threshold`: a group whose std is not above it is dropped, and so is a group of one; None
      drops none.
    - `rank_penalty`: c > 0: r is replaced by r · (1 − c · rank / n), where rank is the rollout's
      position by its mean logprob, 0 for the least likely. Of right answers, the unlikely ones are
      then reinforced most (unlikeliness, arXiv 2506.02355, for rewards of 0 and 1). Needs
      `logprobs`, the mean logprob of each rollout.

    A group of one: mean 0 and std 1, thus r / (1 + ε). An all-equal group: 0 throughout, without
    rank_penalty.
    """
    if scale not in ("group", "batch", "none"):
        raise ValueError(f"scale must be group, batch or none, not {scale!r}")
    checked = penalized([check_rewards(group) for group in groups], rank_penalty, logprobs)
    everything = [reward for group in checked for reward in group]
    whole = deviation(everything) if scale == "batch" and everything else 1.0
    advantages: Advantages = []
    for group in checked:
        group_std = deviation(group)
        if std_threshold is not None and (len(group) == 1 or group_std <= std_threshold):
            advantages.append(None)
            continue
        divisor = {"group": group_std + epsilon, "batch": whole + epsilon, "none": 1.0}[scale]
        advantages.append([difference / divisor for difference in centred(group)])
    return advantages


def penalized(
    groups: Sequence[list[float]], penalty: float, logprobs: Groups | None
) -> list[list[float]]:
    """Return r · (1 − penalty · rank / n), with ranks by mean logprob, 0 for the least likely."""
    if not penalty:
        return list(groups)
    if logprobs is None or [len(group_logprobs) for group_logprobs in logprobs] != [
        len(group) for group in groups
    ]:
        raise ValueError("rank_penalty needs the mean logprob of each rollout")
    return [
        _less_for_likely(group, group_logprobs, penalty) if len(group) > 1 else group
        for group, group_logprobs in zip(groups, logprobs, strict=True)
    ]


def _less_for_likely(group: list[float], logprobs: Sequence[float], penalty: float) -> list[float]:
    """Return the rewards, the more lowered the likelier the rollout is within its group."""
    rewards = list(group)
    by_likelihood = sorted(range(len(group)), key=lambda place: logprobs[place])
    for rank, place in enumerate(by_likelihood):
        rewards[place] = group[place] * (1 - penalty * rank / len(group))
    return rewards


def rloo(groups: Groups) -> Advantages:
    """Return each reward minus the mean of the others: A_i = n/(n−1) · (r_i − mean(r)).

    RLOO, arXiv 2402.14740, §3.2. A group of one has no others: A = r. An all-equal group: 0
    throughout.
    """
    checked = [check_rewards(group) for group in groups]
    return [[c * len(group) / max(len(group) - 1, 1) for c in centred(group)] for group in checked]


def opmd(groups: Groups, *, baseline: str = "mean", tau: float = 1.0) -> Advantages:
    """Return A_i = r_i − b, the gradient weight of online policy mirror descent.

    Kimi k1.5, arXiv 2501.12599, §2.3.2. `baseline` is `mean`: b = mean(r); or `logavgexp`: b =
    τ·log(mean(exp(r/τ))), an estimate of τ log Z. A group of one: b = 0, thus A = r. An all-equal
    group: 0 throughout (both baselines are the reward itself).
    """
    if baseline not in ("mean", "logavgexp"):
        raise ValueError(f"baseline must be mean or logavgexp, not {baseline!r}")
    if not tau > 0:
        raise ValueError(f"tau must be above 0, not {tau}")
    checked = [check_rewards(group) for group in groups]
    if baseline == "mean":
        return [centred(group) for group in checked]
    return [
        [reward - (_soft_mean(group, tau) if len(group) > 1 else 0.0) for reward in group]
        for group in checked
    ]


def _soft_mean(rewards: Sequence[float], tau: float) -> float:
    """Return τ·log(mean(exp(r/τ))), shifted by the largest reward so that nothing overflows."""
    top = max(rewards)
    return top + tau * math.log(mean([math.exp((reward - top) / tau) for reward in rewards]))


def asymre(groups: Groups, *, baseline_shift: float = -0.1) -> Advantages:
    """Return A_i = r_i − (mean(r) + shift).

    A baseline below the mean rewards more than it punishes (AsymRE, arXiv 2506.20520). A group of
    one: baseline 0, thus A = r. An all-equal group: −shift throughout, so it is learned from.
    """
    checked = [check_rewards(group) for group in groups]
    return [
        [c - baseline_shift for c in centred(group)] if len(group) > 1 else centred(group)
        for group in checked
    ]


def reinforce(groups: Groups) -> Advantages:
    """Return the rewards themselves, without a baseline (Williams 1992).

    Groups of one and all-equal groups are like any other.
    """
    return [check_rewards(group) for group in groups]


def rec(
    groups: Groups,
    *,
    std_normalize: bool = False,
    drop: str | None = None,
    epsilon: float = EPSILON,
    seed: int = 0,
    dropped: Sequence[set[int]] | None = None,
) -> Advantages:
    """Return A_i = r_i − mean(r), divided by std + ε where asked (group-relative REINFORCE).

    `drop="balance"`: if more rewards lie below the mean than above it, some of them, drawn by
    `seed`, get advantage 0, so that both sides have the same number; mean and std are then those of
    the kept rewards. `dropped`: the members to leave out of each group, instead of a draw
    (`surpluses`). A group of one has mean 0 and std 1; in a group of equal rewards every advantage
    is 0.
    """
    if drop not in (None, "balance"):
        raise ValueError(f"drop must be balance or nothing, not {drop!r}")
    checked = [check_rewards(group) for group in groups]
    if not drop:
        dropped = [set()] * len(checked)
    elif dropped is None:
        dropped = surpluses(checked, random.Random(seed).sample)
    advantages: Advantages = []
    for group, surplus in zip(checked, dropped, strict=True):
        kept_rewards = [reward for place, reward in enumerate(group) if place not in surplus]
        divisor = deviation(kept_rewards, population=True) + epsilon if std_normalize else 1.0
        differences = iter(centred(kept_rewards))
        advantages.append(
            [
                0.0 if place in surplus else next(differences) / divisor
                for place in range(len(group))
            ]
        )
    return advantages


def surpluses(groups: Groups, sample: Callable[[list[int], int], list[int]]) -> list[set[int]]:
    """Draw, in each group, as many rewards under the mean as these outnumber the others."""
    return [_surplus(group, sample) for group in groups]


def _surplus(group: Sequence[float], sample: Callable[[list[int], int], list[int]]) -> set[int]:
    """Return the places to drop; never so many that none is kept."""
    below = (
        [place for place, difference in enumerate(centred(group)) if difference < 0]
        if len(group) > 1
        else []
    )
    extra = 2 * len(below) - len(group)
    return set(sample(below, extra)) if extra > 0 else set()


def best(groups: Groups, *, keep: int = 1, min_reward: float | None = None) -> Advantages:
    """Return 1 for the best `keep` rollouts of each group and 0 for the others (RAFT).

    RAFT, arXiv 2304.06767, §3.1. A rollout with a reward below `min_reward` is not among the best;
    a group where none reaches it is dropped. Of equal rewards the earlier rollout is taken. A
    group of one: 1. An all-equal group: its first `keep`.
    """
    if keep < 1:
        raise ValueError(f"keep must be at least 1, not {keep}")
    advantages: Advantages = []
    for group in map(check_rewards, groups):
        enough = [
            place
            for place, reward in enumerate(group)
            if min_reward is None or reward >= min_reward
        ]
        chosen = set(sorted(enough, key=lambda place: -group[place])[:keep])
        advantages.append(
            [float(place in chosen) for place in range(len(group))] if chosen else None
        )
    return advantages
