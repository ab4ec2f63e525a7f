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
    others = Counter(worker.role for worker in standing if standing[worker] == "alive")
    dead = [
        worker
        for worker in standing
        if standing[worker] in DEAD and worker.order == Worker.Order.SERVE
    ]
    fenced = [worker for worker in standing if standing[worker] == "quarantined"]
    return [
        *(
            LostWorker(one.key, one.role, True, one.heartbeat_at, "", others[one.role])
            for one in _unreplaced(dead, standing)
        ),
        *(
            LostWorker(
                one.key, one.role, False, _fenced_at(one), _describe_order(one), others[one.role]
            )
            for one in fenced
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
    for worker in sorted(workers, key=lambda one: one.started_at):
        heirs[worker.role, worker.host].append(worker)
    left = []
    for one in dead:
        free = heirs[one.role, one.host]
        if free and free[-1].started_at > one.heartbeat_at:
            free.pop()
        else:
            left.append(one)
    return left


def _describe_order(worker: Worker) -> str:
    return f"by {worker.ordered_by}" + (f": {worker.order_reason}" if worker.order_reason else "")
