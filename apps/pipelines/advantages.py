"""Group advantages: plain floats in, plain floats out. Shown in the UI, tested without torch."""

import math
from collections.abc import Sequence

EPSILON = 1e-6


def grpo(rewards: Sequence[float], scale: str = "group") -> list[float]:
    """How much better each rollout did than its group, in standard deviations of the group.

    A_i = (r_i − mean(r)) / (std(r) + ε), std with n − 1 (DeepSeekMath, arXiv 2402.03300, §4.1.1);
    `scale="none"` leaves the division out (Dr. GRPO, arXiv 2503.20783). `rewards`: [G], finite.
    A group whose rewards are all equal has advantage 0 throughout. Raises ValueError for fewer than two
    rewards (a single rollout has no baseline) or a reward that is not finite.
    """
    if len(rewards) < 2:
        raise ValueError(f"a group advantage needs at least two rewards, got {len(rewards)}")
    if not all(math.isfinite(reward) for reward in rewards):
        raise ValueError(f"rewards must be finite, got {list(rewards)}")
    mean = math.fsum(rewards) / len(rewards)
    centred = [reward - mean for reward in rewards]
    if scale == "none":
        return centred
    deviation = math.sqrt(math.fsum(c * c for c in centred) / (len(rewards) - 1))
    return [c / (deviation + EPSILON) for c in centred]
