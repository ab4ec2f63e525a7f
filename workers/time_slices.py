"""The common form of the workers' jobs: poll the table and do pending work for a few seconds.

A slice lasts its time whether or not there is work: an idle one costs a short query every five
seconds and is woken by a notification, where a new job for each poll would cost a database
connection each. At its end it sends its successor. A lost message costs a second: a free worker
sends itself the job (workers.worker_wakeups). While Redis is away no successor could be sent, so
the slice simply continues.
"""

import time
from collections.abc import Callable

import structlog
from celery.signals import worker_process_shutdown
from django.conf import settings
from django.db import Error, InterfaceError, OperationalError, close_old_connections

from apps.accounts.locking import is_conflict
from apps.runs.models import Run, Worker
from apps.runs.worker_registry import WorkerRegistration, enter
from apps.streaming import wakeups, worker_notifications
from workers import stop_request

log = structlog.get_logger(__name__)
# The first pause between two polls without work, doubled up to the longest. A notification of new
# work ends a pause at once; only deadlines and expired leases are found by polling.
IDLE_SECONDS = 0.25
RESTING_SECONDS = 5.0
STOP_LOOKS_S = 1.0  # seconds between two looks for a stop request during a pause
SOON_SECONDS = 0.5
SAID_SECONDS = 1.0
OUTAGE_SECONDS = 1.0
STATION_OF = {
    Worker.Role.EXPLORER: "explore",
    Worker.Role.SCORER: "score",
    Worker.Role.REFINER: "refine",
    Worker.Role.TRAINER: "train",
}


def nothing_else() -> bool:
    """Return False: most workers work for live runs alone."""
    return False


_here: dict[str, WorkerRegistration] = {}  # by queue
# The next pause of each queue: an idle worker goes on with long ones in its next slice.
_pauses: dict[str, float] = {}


class SideWork:
    """Decide when a worker does its side work: on every look without work but the first one.

    The first look after some work usually finds nothing, for the next work is on its way. The rest
    is then left for later, at most SOON_SECONDS, so that each piece of work is not followed by the
    statements that look for all other kinds.
    """

    def __init__(self) -> None:
        self.was_busy = False
        self.done_at = 0.0

    def is_due(self, is_busy: bool) -> bool:
        """Tell whether to do it now; called once on every look."""
        soon = self.was_busy or is_busy
        self.was_busy = is_busy
        if soon and time.monotonic() - self.done_at < SOON_SECONDS:
            return False
        self.done_at = time.monotonic()
        return True


class ActivityReport:
    """Report what a worker is doing, at most once in SAID_SECONDS."""

    def __init__(self) -> None:
        self.said_at = 0.0

    def say(self, worker: Worker, words: str) -> None:
        if time.monotonic() - self.said_at < SAID_SECONDS:
            return
        worker.beat(words)
        self.said_at = time.monotonic()


def run_slice(
    queue: str,
    serve: Callable[[], bool],
    has_more: Callable[[], bool] = nothing_else,
) -> None:
    """Call `serve` (does pending work, returns whether there was any) until the slice is over.

    While no run is live and `has_more` finds nothing else, it only waits for a notification. During
    a database outage it waits: the lease, not this loop, decides who owns the work afterwards. The
    slice ends early when the worker is asked to stop.
    """
    ends = time.monotonic() + settings.SLICE_SECONDS
    # Heartbeats are sent between two polls.
    longest = min(RESTING_SECONDS, settings.LEASE_SECONDS / 4)
    pause = min(_pauses.get(queue, IDLE_SECONDS), longest)
    busy = False
    while not stop_request.is_asked() and (
        time.monotonic() < ends or not worker_notifications.reachable()
    ):
        try:
            if queue in _here:
                _here[queue].keep()
            # After some work there may be more: `serve` itself looks for it.
            busy = (busy or Run.objects.running().exists() or has_more()) and serve()
        except (OperationalError, InterfaceError) as error:
            if is_conflict(error):
                log.info("lock_conflict", work=queue, error=str(error).strip())
                continue
            log.warning("database_unavailable", queue=queue, error=str(error).strip())
            close_old_connections()
            worker_notifications.wait(queue, OUTAGE_SECONDS)
            continue
        was_woken = busy or wait_for_work(queue, pause)
        pause = IDLE_SECONDS if was_woken else min(2 * pause, longest)
        _pauses[queue] = pause
    if not stop_request.is_asked():
        wakeups.send(queue)


def wait_for_work(queue: str, seconds: float) -> bool:
    """Sleep until a notification arrives, the time is over or the worker is asked to stop.

    Return whether a notification arrived.
    """
    ends = time.monotonic() + seconds
    while (remaining_s := ends - time.monotonic()) > 0 and not stop_request.is_asked():
        if worker_notifications.wait(queue, min(remaining_s, STOP_LOOKS_S)):
            return True
    return False


def register_worker(role: str, **described: object) -> Worker:
    """Create this process's worker row at its first job; the heartbeat keeps it current."""
    worker = enter(role, **described)
    _here[STATION_OF[Worker.Role(role)]] = WorkerRegistration(worker)
    return worker


@worker_process_shutdown.connect
def mark_process_stopped(**_: object) -> None:
    """Mark this process's workers as stopped after an orderly end.

    During a database outage the missing heartbeat has the same effect.
    """
    for attendance in _here.values():
        try:
            attendance.worker.stop()
        except Error as error:
            log.warning(
                "database_unavailable", worker=attendance.worker.key, error=str(error).strip()
            )
