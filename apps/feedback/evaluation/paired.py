"""How far two evaluations differ that asked the same tasks: the difference task by task, which no two intervals tell.

What makes a task hard is hard for both, so it is gone from the difference, and its interval is narrower than two intervals
beside each other suggest (E. Miller, "Adding Error Bars to Evals", 2024, arXiv 2411.00640).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, sqrt

from apps.feedback.evaluation.figures import SURE, t95
from apps.feedback.statistics.intervals import wilson


@dataclass(frozen=True)
class Paired:
    """`one` less `other`, mean over the `tasks` that both have a figure of, with its 95 % interval; all None without a task."""

    value: float | None
    low: float | None
    high: float | None
    tasks: int
    better: int = 0
    worse: int = 0

    @property
    def is_clear(self) -> bool:
        """Whether its interval leaves out 0."""
        return self.value is not None and not self.low <= 0 <= self.high

    @property
    def same(self) -> int:
        return self.tasks - self.better - self.worse


Figures = Mapping[int, float]  # of one measure at one k, by task


def paired(one: Figures, other: Figures) -> Paired:
    """Of the tasks that both have a figure of."""
    return of_differences([one[task] - other[task] for task in one.keys() & other.keys()])


def of_differences(values: Sequence[float]) -> Paired:
    """Student's t with the spread of the differences; within −1 and 1.

    Where all tasks differ alike (by nothing, mostly) that spread says nothing. Then the share of tasks that do so is Wilson's, and
    the others may differ by as much as they can.
    """
    if not values:
        return Paired(None, None, None, 0)
    count, mean = len(values), fsum(values) / len(values)
    better, worse = sum(value > SURE for value in values), sum(value < -SURE for value in values)
    spread = fsum((value - mean) ** 2 for value in values)
    if spread <= SURE or count < 2:
        alike, _ = wilson(count, count)
        low, high = alike * mean - (1 - alike), alike * mean + (1 - alike)
    else:
        half = t95(count - 1) * sqrt(spread / (count - 1) / count)
        low, high = mean - half, mean + half
    return Paired(mean, max(low, -1.0), min(high, 1.0), count, better, worse)
