"""The expected benefit of human review of a group, between 0 and 1.

A group with a spread of rewards has something to learn from, and one whose scorers disagree may
teach the wrong thing. A group whose reward the rater model predicts benefits the more, the less
certain the model is.
"""

import math
from collections.abc import Mapping, Sequence

WIDEST = 0.5  # the largest standard deviation: rewards half 0, half 1


def worth(judged: Sequence[Mapping[str, float]], uncertainty: float = 0.0) -> float:
    """Return the largest of the three benefits.

    `judged` holds each scorer's value per rollout; `uncertainty` is the model's mean deviation.
    """
    means = [math.fsum(values.values()) / len(values) for values in judged if values]
    spread = _deviation(means)
    disagreements = [_deviation(list(values.values())) for values in judged if len(values) > 1]
    disagreement = math.fsum(disagreements) / max(1, len(disagreements))
    largest = max(spread, disagreement, uncertainty)
    return min(1.0, largest / WIDEST)


def distance_from_people(
    scorers: Mapping[str, float], people: float | None, usual: Mapping[str, float]
) -> float:
    """Return how far a reply's scorers are from people, 0 to 1.

    They are compared with people's ratings of it, or a prediction of these; otherwise with the mean
    label for such a scorer value; and without either, with each other.
    """
    if people is not None:
        return max((abs(value - people) for value in scorers.values()), default=0.0)
    if usual:
        return max(abs(scorers[scorer] - value) for scorer, value in usual.items())
    return max(scorers.values()) - min(scorers.values()) if scorers else 0.0


def _deviation(values: Sequence[float]) -> float:
    """Return the population standard deviation; 0 for fewer than two numbers."""
    if len(values) < 2:
        return 0.0
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
