"""Advantages from people's rankings of the rollouts of a group."""

from collections.abc import Sequence

from apps.pipelines.advantages.group import EPSILON, Advantages, Groups, grpo
from apps.pipelines.advantages.spread import ROUNDING, check_rewards


def ranked(places: Sequence[float]) -> list[float]:
    """Return a ranking of k rollouts as k rewards, evenly spaced from 1 (best) to 0.

    Their sum is k/2.

    `places` has shape [k], the smaller the better, in any unit (1, 2, 3 or 10, 20, 30); equal
    places are a tie. Tied rollouts share the mean of the rewards that they span. A single rollout,
    or all tied: 0.5 each. Raises ValueError for a place that is missing or not finite.
    """
    checked = check_rewards(places)
    if len(checked) == 1:
        return [0.5]
    gap = ROUNDING * max(abs(place) for place in checked)
    ahead = [sum(other_place < place - gap for other_place in checked) for place in checked]
    level = [
        sum(abs(other_place - place) <= gap for other_place in checked) - 1 for place in checked
    ]
    return [1 - (a + tied / 2) / (len(checked) - 1) for a, tied in zip(ahead, level, strict=True)]


def ranking(
    groups: Groups,
    *,
    scale: str = "group",
    epsilon: float = EPSILON,
    std_threshold: float | None = None,
) -> Advantages:
    """Return GRPO on the order of the rewards, so that raters' different use of the scale cancels.

    Each group's rewards (higher is better) are replaced by `ranked` ones, then `grpo` with the same
    options. A group of one: (0.5) / (1 + ε) with scale `group`. An all-equal group: one tie, 0
    throughout.
    """
    places = [ranked([-reward for reward in check_rewards(group)]) for group in groups]
    return grpo(places, scale=scale, epsilon=epsilon, std_threshold=std_threshold)
