"""Current state of a run, from a few counts: the flow strip, the ledger and the state sentence."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta

from django.db.models import Count
from django.utils import timezone

from apps.buffer.models import Experience
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Acknowledgement, Run, TrainStep, Worker, newest_values

ALIVE = timedelta(seconds=60)
REASONS_SHOWN = 4
REASONS_AMONG = 1_000
METRICS_OF_STEPS = 3  # a metric that none of the last steps has is out of date


@dataclass(frozen=True)
class Ledger:
    """The counts of one run: groups by state, experiences by state, and what the engines serve.

    `is_open` allows the reason of a stop, which may reveal ratings. `dropped` also holds closed
    groups that were admitted and left the buffer without being trained on.
    """

    run: Run
    groups: dict[str, int]
    experiences: dict[str, int]
    sampling: int
    metrics: dict[str, float] = field(default_factory=dict)
    engines: list[Acknowledgement] = field(default_factory=list)
    is_open: bool = False

    @property
    def judging(self) -> int:
        return self.groups["scoring"] + self.groups["judged"]

    @property
    def is_acknowledged(self) -> bool:
        """Tell whether every live engine of this run has the published version."""
        return bool(self.engines) and all(
            word.weight_version.version == self.run.published_version for word in self.engines
        )

    @property
    def slowest_milliseconds(self) -> float | None:
        current = [
            word.milliseconds
            for word in self.engines
            if word.weight_version.version == self.run.published_version
        ]
        return max(current, default=None)

    @property
    def starving(self) -> str:
        """Return the stage that keeps the trainer waiting: people, judging or sampling.

        It is "" while a step is running, or when the run makes none. The trainer reports that it
        waits: few ready groups could also mean that it has just taken the others.
        """
        is_waiting = self.run.is_live and self.run.waiting_on
        if not is_waiting or self.experiences["ready"] >= self.run.settings.usual_rows_per_step:
            return ""
        if self.groups["waiting"]:
            return "people"
        return "judging" if self.judging > self.groups["sampling"] else "sampling"

    @property
    def sentence(self) -> str:
        """Return the run's state as a sentence, with the cause."""
        return " · ".join(
            part for part in (self._state(), self._progress(), self._pace(), self._cause()) if part
        )

    def _state(self) -> str:
        label = self.run.get_state_display()
        return label[0].upper() + label[1:]

    def _progress(self) -> str:
        if self.run.is_evaluation:
            return f"{self.groups['closed']:,} of {self.run.tasks_asked:,} tasks"
        return (
            f"step {self.run.step:,} of {self.run.planned_steps:,}"
            if self.run.started_at
            else f"{self.run.planned_steps:,} steps planned"
        )

    def _pace(self) -> str:
        seconds = self.metrics.get("step_seconds")
        return f"{seconds:.1f} s per step" if seconds is not None and self.run.is_live else ""

    def _cause(self) -> str:
        if not self.run.is_live:
            return self.run.state_reason if self.is_open else ""
        if self.starving == "people":
            count = self.groups["waiting"]
            return f"waiting for people to rate {count:,} group{'s' if count != 1 else ''}"
        return f"waiting for {self.run.waiting_on}" if self.run.waiting_on else ""


def load_ledger(run: Run, is_open: bool = False) -> Ledger:
    """Return the ledger in five queries; closed groups come from the run's own counters."""
    sampling = Rollout.objects.filter(
        group__run=run, group__state=Group.State.SAMPLING, state=Rollout.State.SAMPLING
    ).count()
    return Ledger(
        run=run,
        groups=_groups(run),
        experiences=Experience.objects.census(run),
        sampling=sampling,
        metrics=newest_values(run, METRICS_OF_STEPS),
        engines=list_live_engines(run),
        is_open=is_open,
    )


def _groups(run: Run) -> dict[str, int]:
    """Return counts of open groups by state, and of closed, dropped and admitted ones."""
    counted = (
        Group.objects.filter(run=run, state__in=Group.OPEN)
        .order_by()
        .values_list("state")
        .annotate(n=Count("pk"))
    )
    groups = dict.fromkeys(Group.OPEN, 0) | dict(counted)
    closed = max(0, run.groups_opened - sum(groups.values()))
    dropped = min(closed, run.groups_dropped)
    return groups | {"closed": closed, "dropped": dropped, "admitted": closed - dropped}


def list_live_engines(run: Run) -> list[Acknowledgement]:
    """Return the newest acknowledgement of every live engine that serves this run."""
    alive = Acknowledgement.objects.filter(
        weight_version__run=run,
        worker__stopped_at=None,
        worker__heartbeat_at__gte=timezone.now() - ALIVE,
    )
    newest = alive.order_by("worker_id", "-weight_version__version").distinct("worker_id")
    return list(newest.select_related("worker", "weight_version"))


def workers_for(run: Run, limit: int) -> list[Worker]:
    """Return the live workers, each with what it does for this run only.

    Other runs may belong to other projects.
    """
    workers = list(Worker.objects.filter(stopped_at=None).order_by("role", "-heartbeat_at")[:limit])
    for worker in workers:
        if (
            worker.for_runs or ": " in worker.doing
        ):  # workers of an older version name their runs here
            worker.doing = worker.for_runs.get(str(run.pk), "working for another run")
    return workers


def drop_reasons(run: Run) -> list[tuple[str, int]]:
    """Return why groups and experiences were dropped lately, the most common first."""
    counts: Counter[str] = Counter()
    for model in (Group, Experience):
        dropped = model.objects.filter(run=run, state="dropped").order_by("-pk")
        counts.update(dropped.values_list("reason", flat=True)[:REASONS_AMONG])
    return counts.most_common(REASONS_SHOWN)


def skipped_steps(run: Run) -> tuple[int, TrainStep | None]:
    """Return how many steps were skipped, and the last of them.

    A step is skipped if its loss or gradient is not finite.
    """
    skipped = run.steps.exclude(skipped="").order_by("-number")
    count = skipped.count()
    return count, skipped.first() if count else None
