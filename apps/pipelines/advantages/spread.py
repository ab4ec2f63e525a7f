"""Mean and standard deviation of rewards, and the check that rewards are finite numbers."""

import math
from collections.abc import Sequence

# Rewards closer than this, relative to the largest, differ by rounding only.
ROUNDING = 1e-12


def check_rewards(rewards: Sequence[float]) -> list[float]:
    """Return the rewards, [G], as floats.

    Raises ValueError when there is none, or one is missing or not finite.
    """
    if not rewards:
        raise ValueError("a group needs at least one reward")
    for place, reward in enumerate(rewards):
        if reward is None or not math.isfinite(reward):
            raise ValueError(
                f"rewards must be finite numbers; reward {place} of {len(rewards)} is {reward}"
            )
    return [float(reward) for reward in rewards]


def are_equal(rewards: Sequence[float]) -> bool:
    return max(rewards) - min(rewards) <= ROUNDING * max(abs(reward) for reward in rewards)


def mean(values: Sequence[float]) -> float:
    return math.fsum(value / len(values) for value in values)


def centred(rewards: Sequence[float]) -> list[float]:
    """Return r_i − mean(r); all zeros for equal rewards, the reward itself for a single one."""
    if len(rewards) == 1:
        return list(rewards)
    if are_equal(rewards):
        return [0.0] * len(rewards)
    middle = mean(rewards)
    return [reward - middle for reward in rewards]


def deviation(rewards: Sequence[float], *, population: bool = False) -> float:
    """Return the standard deviation over n − 1 (`population`: over n).

    Equal rewards have 0, a single one has 1 (nothing to divide by).
    """
    if len(rewards) == 1:
        return 1.0
    if are_equal(rewards):
        return 0.0
    middle = mean(rewards)
    # hypot does not overflow where a sum of squares would.
    return math.hypot(*(reward - middle for reward in rewards)) / math.sqrt(
        len(rewards) - (not population)
    )
