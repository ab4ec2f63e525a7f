"""Transfer of a run's steps to a target: exactly those that it does not have yet."""

from collections.abc import Callable, Iterator

from apps.runs.exporting.reading import Batch, RunMetrics
from apps.runs.models import Run
from apps.runs.writers.contract import Step, Target


def hand_over(run: Run, target: Target, at: Callable[[int], None] = lambda step: None) -> int:
    """Write the steps above the target's last one; `at(step)` after each some hundred.

    Returns how many were written.

    A step's metrics are there all at once, and steps in their order: a trainer writes both in the
    transaction of its commit.
    """
    metrics = RunMetrics(run, after=target.last_step())
    count = 0
    for batch in metrics.wide():
        steps = list(_steps(metrics.names, batch))
        target.write(steps)
        count += len(steps)
        at(steps[-1].number)
    return count


def _steps(names: list[str], batch: Batch) -> Iterator[Step]:
    for number, version, at, *values in batch:
        yield Step(
            number,
            at,
            version,
            {name: value for name, value in zip(names, values, strict=True) if value is not None},
        )
