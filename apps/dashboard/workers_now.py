"""Content of the workers page: processes, queue lengths, due work, and status of services.

Names of runs are shown to people who may see the runs; total counts reveal nothing about them.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import redis
from django.conf import settings
from django.db import connection
from django.db.models import Count, Min, Q
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.buffer.models import Experience
from apps.dashboard.log_search import is_keeper
from apps.rewards.models import Rescoring
from apps.rollouts.models import Group
from apps.runs.models import Run, Worker
from apps.streaming import worker_notifications

MAX_WORKERS_SHOWN = 200
MAX_COUNTED = 10_000
ANOTHER = "with a run of another project"


@dataclass(frozen=True)
class Seen:
    """A worker as the user may see it.

    `parts` are what it does and for which run (None: none, or one that the user may not see).
    """

    worker: Worker
    parts: tuple[tuple[Run | None, str], ...]

    @property
    def memory_share(self) -> float | None:
        """Return the used share of its GPU's memory, by whatever process."""
        metrics = self.worker.metrics
        return (
            metrics["gpu_bytes"] / metrics["gpu_total_bytes"]
            if metrics.get("gpu_total_bytes")
            else None
        )


@dataclass(frozen=True)
class Due:
    """Work that waits for a stage.

    `at_it` counts what is being worked on; `oldest` is since when the oldest waits.
    """

    station: str
    what: str
    why: str
    count: int
    at_it: int | None = None
    oldest: datetime | None = None


def seen_by(user: User, workers: Iterable[Worker]) -> list[Seen]:
    """Return the workers as the user may see them, in one query."""
    workers = list(workers)
    ids = {int(run) for worker in workers for run in worker.for_runs}
    runs = (
        {
            run.pk: run
            for run in Run.objects.visible_to(user).filter(pk__in=ids).select_related("project")
        }
        if ids
        else {}
    )
    return [Seen(worker, tuple(_parts(worker, runs, is_keeper(user)))) for worker in workers]


def _parts(
    worker: Worker, runs: dict[int, Run], may_see_all: bool
) -> Iterable[tuple[Run | None, str]]:
    if worker.for_runs:
        for run, words in worker.for_runs.items():
            visible_run = runs.get(int(run))
            yield visible_run, words if visible_run or may_see_all else ANOTHER
    elif worker.doing:
        # A worker of an older version names its runs there.
        yield None, worker.doing if may_see_all or ": " not in worker.doing else ANOTHER


def list_run_workers() -> list[Worker]:
    """Return the workers that serve runs and have not stopped, by role."""
    return list(Worker.objects.filter(stopped_at=None).order_by("role", "-pk")[:MAX_WORKERS_SHOWN])


def list_other_processes() -> list[Worker]:
    """Return the other processes that have not stopped: web servers and the control plane."""
    processes = Worker.every.filter(stopped_at=None).exclude(role__in=Worker.OF_RUNS)
    return list(processes.order_by("role", "-pk")[:MAX_WORKERS_SHOWN])


def queues() -> dict[str, int] | None:
    """Return the messages in each of the broker's queues; None while it does not answer.

    These are wake-up messages, so a few are normal.
    """
    names = [queue.name for queue in settings.CELERY_TASK_QUEUES]
    try:
        pipe = worker_notifications.connection().pipeline(transaction=False)
        for name in names:
            pipe.llen(name)
        return dict(zip(names, pipe.execute(), strict=True))
    except worker_notifications.DEAD_REDIS:
        return None


STATIONS = {
    Group.State.SAMPLING: (
        "explorer",
        "groups to be sampled",
        "Opened, but not all of their rollouts are complete.",
    ),
    Group.State.SCORING: (
        "scorer",
        "groups to be scored",
        "Sampled, but not scored yet.",
    ),
    Group.State.WAITING: (
        "people",
        "groups waiting for people",
        "Waiting for more ratings or the deadline.",
    ),
    Group.State.JUDGED: (
        "refiner",
        "groups for the pipeline",
        "Judged, but not processed by the pipeline yet.",
    ),
}


def list_due_work() -> list[Due]:
    """Return the work that waits in training runs, by stage.

    It is counted from database rows only: a lost message changes nothing.
    """
    leased = Count("pk", filter=Q(lease_until__gte=Now()))
    open_groups = Group.objects.filter(
        state__in=Group.OPEN, run__state=Run.State.RUNNING
    ).order_by()
    counts_by_state = {
        row["state"]: row
        for row in open_groups.values("state").annotate(
            n=Count("pk"), leased=leased, oldest=Min("opened_at")
        )
    }
    rows = [
        Due(
            station,
            what,
            why,
            **_row_counts(counts_by_state.get(state), is_people=station == "people"),
        )
        for state, (station, what, why) in STATIONS.items()
    ]
    ready = Experience.objects.filter(state=Experience.State.READY, run__state=Run.State.RUNNING)
    rescorings = Rescoring.objects.open()
    untrained = Run.objects.training().exclude(lease_until__gte=Now()).count()
    return [
        *rows,
        Due(
            "trainer",
            "experiences ready",
            "Refined, but not used in a step yet.",
            ready[: MAX_COUNTED + 1].count(),
        ),
        Due(
            "trainer",
            "runs without a trainer",
            "Running, but not being trained now.",
            untrained,
        ),
        Due(
            "scorer",
            "rescorings",
            "Requested on a run's page.",
            rescorings.count(),
        ),
    ]


def _row_counts(row: Mapping[str, Any] | None, is_people: bool) -> dict[str, Any]:
    if row is None:
        return {"count": 0, "at_it": None if is_people else 0}
    return {
        "count": row["n"],
        "at_it": None if is_people else row["leased"],
        "oldest": row["oldest"],
    }


def services() -> list[tuple[str, bool, str]]:
    """Return database and broker: whether each answers, with version and usage."""
    return [("PostgreSQL", True, _postgres()), _redis()]


def _postgres() -> str:
    started = time.perf_counter()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('server_version'), pg_database_size(current_database()),"
            " current_setting('max_connections')::int, (SELECT count(*) FROM pg_stat_activity WHERE"
            " datname = current_database())"
        )
        version, size, max_connections, used = cursor.fetchone()
    return (
        f"{version}, {size / 2**20:,.0f} MiB, {used} of {max_connections} connections,"
        f" response time {_ms(started)} ms"
    )


def _redis() -> tuple[str, bool, str]:
    started = time.perf_counter()
    try:
        info = worker_notifications.connection().info()
    except redis.RedisError as error:
        return (
            "Redis",
            False,
            (
                f"does not respond ({error}); ratings and training continue, but live pages are "
                "paused"
            ),
        )
    version = info.get("valkey_version") or info.get("redis_version", "unknown")
    memory = info.get("used_memory", 0) / 2**20
    return (
        "Redis",
        True,
        (
            f"{version}, {memory:,.0f} MiB, {info.get('connected_clients', 0)} clients, "
            f"response time {_ms(started)} ms"
        ),
    )


def _ms(started: float) -> str:
    return f"{(time.perf_counter() - started) * 1000:.0f}"
