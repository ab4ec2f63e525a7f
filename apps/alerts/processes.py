"""Which workers are lost: dead ones in whose place nobody has come, and those that were fenced."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models.functions import Now

from apps.runs.models import Worker

SEEN, DAYS = 500, 31  # workers looked at, those heard of last; how long ago that may be
DEAD = ("dead", "silent")


@dataclass(frozen=True)
class Lost:
    """A worker that serves no longer, though nobody told it to end. `why`: who fenced it; `others`: of its role, alive."""

    key: str
    role: str
    is_dead: bool
    since: datetime
    why: str
    others: int


def lost() -> list[Lost]:
    """The dead by when they spoke last, the fenced by when that was ordered. In one query."""
    heard = Worker.objects.filter(heartbeat_at__gt=Now() - timedelta(days=DAYS)).order_by("-heartbeat_at")[:SEEN]
    standing = {worker: worker.standing for worker in heard}
    others = Counter(worker.role for worker in standing if standing[worker] == "alive")
    dead = [worker for worker in standing if standing[worker] in DEAD and worker.order == Worker.Order.SERVE]
    fenced = [worker for worker in standing if standing[worker] == "quarantined"]
    return [
        *(Lost(one.key, one.role, True, one.heartbeat_at, "", others[one.role]) for one in _unreplaced(dead, standing)),
        *(Lost(one.key, one.role, False, one.ordered_at, _ordered(one), others[one.role]) for one in fenced),
    ]


def _unreplaced(dead: Iterable[Worker], workers: Iterable[Worker]) -> list[Worker]:
    """Without those in whose place another of the role was started on their host: each takes one's place, whatever became of it.

    The newest dead choose first: who was started after them was started after the older ones, too.
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


def _ordered(worker: Worker) -> str:
    return f"by {worker.ordered_by}" + (f": {worker.order_reason}" if worker.order_reason else "")
