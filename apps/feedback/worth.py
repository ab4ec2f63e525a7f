"""Where people's time pays: how much a group gains from being looked at, between 0 and 1.

A group whose rewards spread has something to learn from, one whose scorers disagree may learn the wrong thing, and one whose
reward is a guess of the rater model is worth the more the less sure the model is.
"""

import math
from collections.abc import Mapping, Sequence

WIDEST = 0.5  # the standard deviation of rewards that are half 0, half 1


def worth(judged: Sequence[Mapping[str, float]], uncertainty: float = 0.0) -> float:
    """The largest of the three. `judged`: of each rollout, what each scorer said; `uncertainty`: the model's mean deviation."""
    spread = _deviation([math.fsum(said.values()) / len(said) for said in judged if said])
    disagreement = [_deviation(list(said.values())) for said in judged if len(said) > 1]
    mean = math.fsum(disagreement) / len(disagreement) if disagreement else 0.0
    return min(1.0, max(spread, mean, uncertainty) / WIDEST)


def apart(scorers: Mapping[str, float], people: float | None, usual: Mapping[str, float]) -> float:
    """How far a reply's scorers lie from people, 0 to 1; all values are.

    From their word on it, or what is foretold of it; where that is not known, from what they usually give where a scorer gives so
    much; and where nothing is known of people, from each other.
    """
    if people is not None:
        return max((abs(value - people) for value in scorers.values()), default=0.0)
    if usual:
        return max(abs(scorers[scorer] - value) for scorer, value in usual.items())
    return max(scorers.values()) - min(scorers.values()) if scorers else 0.0


def _deviation(values: Sequence[float]) -> float:
    """The population standard deviation; 0 of fewer than two numbers."""
    if len(values) < 2:
        return 0.0
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
