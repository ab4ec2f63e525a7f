"""Success rates of a taskset's tasks in its runs: ten bins, the hardest and the easiest tasks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, F, Sum
from django.db.models.functions import Floor, Least

from apps.accounts.models import User
from apps.rollouts.task_stats import RATES, TaskRecord
from apps.runs.blind_review import open_among
from apps.runs.models import Run
from apps.tasksets.models import Taskset

BINS = 10
HEIGHT = 60.0  # height of the largest bar, in the drawing's units
ENDS = 5  # tasks shown at either end


@dataclass(frozen=True)
class Bar:
    """The tasks whose success rate is from `low` to `high`; only the last bin includes `high`."""

    low: float
    high: float
    count: int
    height: float

    @property
    def left(self) -> int:
        """Return its x position in a drawing 200 wide."""
        return round(self.low * 200) + 2

    @property
    def top(self) -> float:
        return HEIGHT - self.height

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2


@dataclass(frozen=True)
class Histogram:
    """A run's tasks by success rate."""

    run: Run
    bars: Sequence[Bar]
    tried: int
    untried: int
    rate: float  # over all attempts


@dataclass(frozen=True)
class HardestAndEasiest:
    """A run's hardest and easiest tasks, each with its statistics."""

    run: Run
    hardest: Sequence[TaskRecord]
    easiest: Sequence[TaskRecord]


def histograms(taskset: Taskset, runs: Sequence[Run], user: User) -> list[Histogram]:
    """Return the histograms of runs whose ratings the user may see, in two queries.

    Only runs that have tried a task of the set are included.
    """
    open_run_ids = open_among(user, [run.pk for run in runs])
    rows_by_run: dict[int, list[Mapping[str, Any]]] = {}
    binned = TaskRecord.objects.filter(run__in=open_run_ids, task__taskset=taskset).annotate(
        bin=Least(Floor(F("rate") * BINS), BINS - 1.0)
    )
    for row in binned.values("run", "bin").annotate(
        tasks=Count("pk"), tries=Sum("attempts"), right=Sum("successes")
    ):
        rows_by_run.setdefault(row["run"], []).append(row)
    return [_histogram(taskset, run, rows_by_run[run.pk]) for run in runs if run.pk in rows_by_run]


def find_hardest_and_easiest(taskset: Taskset, run: Run) -> HardestAndEasiest:
    """Return the hardest and easiest tasks of the set in a run, in two queries.

    No task appears at both ends.
    """
    records = TaskRecord.objects.filter(run=run, task__taskset=taskset).annotate(
        recent=RATES["recent"]
    )
    records = records.select_related("task").defer("task__answer")
    hardest = list(records.order_by("rate", "pk")[:ENDS])
    easiest = list(
        records.exclude(pk__in=[record.pk for record in hardest]).order_by("-rate", "-pk")[:ENDS]
    )
    return HardestAndEasiest(run, hardest, easiest)


def _histogram(taskset: Taskset, run: Run, rows: Sequence[Mapping[str, Any]]) -> Histogram:
    counts = {int(row["bin"]): row["tasks"] for row in rows}
    tried = sum(counts.values())
    tries = sum(row["tries"] for row in rows)
    rate = sum(row["right"] for row in rows) / tries
    return Histogram(run, list(_bars(counts)), tried, taskset.size - tried, rate)


def _bars(counts: dict[int, int]) -> Iterator[Bar]:
    largest_count = max(counts.values())
    for n in range(BINS):
        count = counts.get(n, 0)
        yield Bar(
            n / BINS,
            (n + 1) / BINS,
            count,
            max(1.5, HEIGHT * count / largest_count) if count else 0.0,
        )
