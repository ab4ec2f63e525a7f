"""Compare two evaluations of the same tasks by the difference for each task.

A task that is hard for one is hard for both, so its difficulty cancels in the difference, whose
interval is narrower than two separate intervals suggest (E. Miller, "Adding Error Bars to Evals",
2024, arXiv 2411.00640).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, sqrt

from apps.evaluation.metrics import SURE, t95
from apps.statistics.intervals import wilson


@dataclass(frozen=True)
class Paired:
    """The mean difference, first minus second, over the `tasks` with both metrics.

    `low` and `high` bound its 95 % interval. All are None without such tasks.
    """

    value: float | None
    low: float | None
    high: float | None
    tasks: int
    better: int = 0
    worse: int = 0

    @property
    def is_clear(self) -> bool:
        """Tell whether the interval excludes 0."""
        if self.low is None or self.high is None:
            return False
        return not self.low <= 0 <= self.high

    @property
    def same(self) -> int:
        return self.tasks - self.better - self.worse


MetricByTask = Mapping[int, float]  # of one measure at one k, by task


def paired(first: MetricByTask, second: MetricByTask) -> Paired:
    """Compare the tasks for which both evaluations have a metric."""
    return of_differences([first[task] - second[task] for task in first.keys() & second.keys()])


def of_differences(values: Sequence[float]) -> Paired:
    """Return the mean difference with a Student's t interval, within −1 and 1.

    If all tasks differ by the same amount (mostly 0) there is no spread. Then the share of such
    tasks gets Wilson's interval, and the other tasks may differ by as much as they can.
    """
    if not values:
        return Paired(None, None, None, 0)
    count = len(values)
    mean = fsum(values) / len(values)
    better = sum(value > SURE for value in values)
    worse = sum(value < -SURE for value in values)
    spread = fsum((value - mean) ** 2 for value in values)
    if spread <= SURE or count < 2:
        bounds = wilson(count, count)
        assert bounds is not None  # of at least one difference
        share, _ = bounds
        low = share * mean - (1 - share)
        high = share * mean + (1 - share)
    else:
        half = t95(count - 1) * sqrt(spread / (count - 1) / count)
        low = mean - half
        high = mean + half
    return Paired(mean, max(low, -1.0), min(high, 1.0), count, better, worse)
