"""Advantages of the rollouts of one task, from one reward each: every group is compared with itself.

`groups`: G groups of n_g rewards. Each function gives back the same shape; None stands for a group that is dropped.
"""

import math
import random
from collections.abc import Sequence

from apps.pipelines.advantages.spread import centred, checked, deviation, mean

EPSILON = 1e-6
Groups = Sequence[Sequence[float]]
Advantages = list[list[float] | None]


def grpo(groups: Groups, *, scale: str = "group", epsilon: float = EPSILON, std_threshold: float | None = None) -> Advantages:
    """How much better each rollout did than its group, in standard deviations.

    A_i = (r_i − mean(r)) / (std + ε), std over n − 1 (DeepSeekMath, arXiv 2402.03300, §4.1.1).
    scale   `group`: std of the group; `batch`: std of all rewards of the batch (mean stays the group's);
            `none`: no division (Dr. GRPO, arXiv 2503.20783)
    std_threshold   a group whose std is not above it is dropped, and so is a group of one; None drops none
    A group of one: mean 0 and std 1, thus r / (1 + ε). An all-equal group: 0 throughout.
    """
    if scale not in ("group", "batch", "none"):
        raise ValueError(f"scale is {scale!r}; it is one of group, batch, none")
    known = [checked(group) for group in groups]
    everything = [reward for group in known for reward in group]
    whole = deviation(everything) if scale == "batch" and everything else 1.0
    found: Advantages = []
    for group in known:
        own = deviation(group)
        if std_threshold is not None and (len(group) == 1 or own <= std_threshold):
            found.append(None)
            continue
        divisor = {"group": own + epsilon, "batch": whole + epsilon, "none": 1.0}[scale]
        found.append([difference / divisor for difference in centred(group)])
    return found


def rloo(groups: Groups) -> Advantages:
    """The reward minus the mean of the others: A_i = n/(n−1) · (r_i − mean(r)) (RLOO, arXiv 2402.14740, §3.2).

    A group of one has no others: A = r. An all-equal group: 0 throughout.
    """
    known = [checked(group) for group in groups]
    return [[c * len(group) / max(len(group) - 1, 1) for c in centred(group)] for group in known]


def opmd(groups: Groups, *, baseline: str = "mean", tau: float = 1.0) -> Advantages:
    """A_i = r_i − b, the gradient weight of online policy mirror descent (Kimi k1.5, arXiv 2501.12599, §2.3.2).

    baseline   `mean`: b = mean(r); `logavgexp`: b = τ·log(mean(exp(r/τ))), an estimate of τ log Z
    A group of one: b = 0, thus A = r. An all-equal group: 0 throughout (both baselines are the reward itself).
    """
    if baseline not in ("mean", "logavgexp"):
        raise ValueError(f"baseline is {baseline!r}; it is one of mean, logavgexp")
    if not tau > 0:
        raise ValueError(f"tau is {tau}; it must be above 0")
    known = [checked(group) for group in groups]
    if baseline == "mean":
        return [centred(group) for group in known]
    return [[reward - (_soft_mean(group, tau) if len(group) > 1 else 0.0) for reward in group] for group in known]


def _soft_mean(rewards: Sequence[float], tau: float) -> float:
    """τ·log(mean(exp(r/τ))), shifted by the largest reward so that no exponential overflows."""
    top = max(rewards)
    return top + tau * math.log(mean([math.exp((reward - top) / tau) for reward in rewards]))


def asymre(groups: Groups, *, baseline_shift: float = -0.1) -> Advantages:
    """A_i = r_i − (mean(r) + shift): a baseline below the mean rewards more than it punishes (AsymRE, arXiv 2506.20520).

    A group of one: baseline 0, thus A = r. An all-equal group: −shift throughout, it is learned from.
    """
    known = [checked(group) for group in groups]
    return [[c - baseline_shift for c in centred(group)] if len(group) > 1 else centred(group) for group in known]


def reinforce(groups: Groups) -> Advantages:
    """A_i = r_i: no baseline (Williams 1992). Groups of one and all-equal groups are like any other."""
    return [checked(group) for group in groups]


def rec(
    groups: Groups, *, std_normalize: bool = False, drop: str | None = None, epsilon: float = EPSILON, seed: int = 0
) -> Advantages:
    """A_i = r_i − mean(r), over std + ε where asked, std over n (group-relative REINFORCE, arXiv 2509.24203).

    drop   `balance`: when more rewards lie under the mean than not, so many of them, drawn by `seed`, get advantage 0
           that both sides are as large; mean and std are then those of the kept rewards
    A group of one: mean 0, std 1. An all-equal group: 0 throughout.
    """
    if drop not in (None, "balance"):
        raise ValueError(f"drop is {drop!r}; it is balance or nothing")
    draw = random.Random(seed)
    found: Advantages = []
    for group in map(checked, groups):
        surplus = _surplus(group, draw) if drop else set()
        kept = [reward for place, reward in enumerate(group) if place not in surplus]
        divisor = deviation(kept, population=True) + epsilon if std_normalize else 1.0
        differences = iter(centred(kept))
        found.append([0.0 if place in surplus else next(differences) / divisor for place in range(len(group))])
    return found


def _surplus(group: Sequence[float], draw: random.Random) -> set[int]:
    """Places of as many rewards under the mean as these outnumber the others; never so many that none is kept."""
    below = [place for place, difference in enumerate(centred(group)) if difference < 0] if len(group) > 1 else []
    extra = 2 * len(below) - len(group)
    return set(draw.sample(below, extra)) if extra > 0 else set()


def best(groups: Groups, *, keep: int = 1, at_least: float | None = None) -> Advantages:
    """1 for the best `keep` rollouts of each group, 0 for the others: what RAFT imitates (arXiv 2304.06767, §3.1).

    at_least   a rollout with a lower reward is not among the best; a group where none reaches it is dropped
    Of equal rewards the earlier rollout is taken. A group of one: 1. An all-equal group: its first `keep`.
    """
    if keep < 1:
        raise ValueError(f"keep is {keep}; it is 1 or more")
    found: Advantages = []
    for group in map(checked, groups):
        enough = [place for place, reward in enumerate(group) if at_least is None or reward >= at_least]
        chosen = set(sorted(enough, key=lambda place: -group[place])[:keep])
        found.append([float(place in chosen) for place in range(len(group))] if chosen else None)
    return found
