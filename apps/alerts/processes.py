"""Lost workers: dead ones that no new worker has replaced, and fenced ones."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models.functions import Now

from apps.runs.models import Worker

SEEN = 500
DAYS = 31  # days since the last heartbeat; older workers are ignored
DEAD = ("dead", "silent")


@dataclass(frozen=True)
class LostWorker:
    """A worker that stopped serving without being told to end.

    `why` is who fenced it; `others` counts living workers of its role.
    """

    key: str
    role: str
    is_dead: bool
    since: datetime
    why: str
    others: int


def lost() -> list[LostWorker]:
    """Return the lost workers, in one query.

    The time of a dead worker is its last heartbeat, that of a fenced one when it was fenced.
    """
    recent_workers = Worker.objects.filter(heartbeat_at__gt=Now() - timedelta(days=DAYS)).order_by(
        "-heartbeat_at"
    )[:SEEN]
    standing = {worker: worker.standing for worker in recent_workers}
    alive_by_role = Counter(worker.role for worker in standing if standing[worker] == "alive")
    dead = [
        worker
        for worker in standing
        if standing[worker] in DEAD and worker.order == Worker.Order.SERVE
    ]
    fenced = [worker for worker in standing if standing[worker] == "quarantined"]
    return [
        *(
            LostWorker(
                worker.key, worker.role, True, worker.heartbeat_at, "", alive_by_role[worker.role]
            )
            for worker in _unreplaced(dead, standing)
        ),
        *(
            LostWorker(
                worker.key,
                worker.role,
                False,
                _fenced_at(worker),
                _describe_order(worker),
                alive_by_role[worker.role],
            )
            for worker in fenced
        ),
    ]


def _fenced_at(worker: Worker) -> datetime:
    assert worker.ordered_at is not None  # every order has its time
    return worker.ordered_at


def _unreplaced(dead: Iterable[Worker], workers: Iterable[Worker]) -> list[Worker]:
    """Return the dead workers that no later worker of the same role and host replaces.

    Each new worker replaces one dead worker. The latest dead are matched first: a worker that
    started after them also started after the older ones.
    """
    heirs: dict[tuple[str, str], list[Worker]] = defaultdict(list)
    for worker in sorted(workers, key=lambda worker: worker.started_at):
        heirs[worker.role, worker.host].append(worker)
    unreplaced = []
    for dead_worker in dead:
        free = heirs[dead_worker.role, dead_worker.host]
        if free and free[-1].started_at > dead_worker.heartbeat_at:
            free.pop()
        else:
            unreplaced.append(dead_worker)
    return unreplaced


def _describe_order(worker: Worker) -> str:
    return f"by {worker.ordered_by}" + (f": {worker.order_reason}" if worker.order_reason else "")
