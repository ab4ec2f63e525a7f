"""The shape of every station's job: look in the table, do what is due, for a few seconds; then the
next slice.

A slice lasts its time whether or not there is work: a waiting one costs one short query a second
and is woken by its station's bell, where a new job for each look would cost a database connection
each. At its end it sends its successor. A lost message costs a second: a worker that is free wakes
its station (workers.station_wakeups). While Redis is away nobody could send one, so the slice
simply goes on.
"""

import time
from collections.abc import Callable

import structlog
from celery.signals import worker_process_shutdown
from django.conf import settings
from django.db import Error, InterfaceError, OperationalError, close_old_connections

from apps.accounts.locking import is_conflict
from apps.runs.attendance import Attendance, enter
from apps.runs.models import Run, Worker
from apps.streaming import bells, wakeups
from workers import stopping

log = structlog.get_logger(__name__)
# Between two looks that find nothing: the first pause, doubled up to the longest. Whatever makes
# work rings the station's bell, which ends a pause at once; only deadlines and expired leases are
# found by looking.
IDLE_SECONDS = 0.25
RESTING_SECONDS = 2.0
OUTAGE_SECONDS = 1.0
STATION_OF = {
    Worker.Role.EXPLORER: "explore", Worker.Role.SCORER: "score", Worker.Role.REFINER: "refine", Worker.Role.TRAINER: "train",
}  # fmt: skip


def nothing_else() -> bool:
    """Most stations work for live runs alone."""
    return False


_here: dict[str, Attendance] = {}  # by station


def run_slice(
    station: str,
    serve: Callable[[], bool],
    has_more: Callable[[], bool] = nothing_else,
) -> None:
    """Call `serve` (does what is due, returns whether there was any) until the slice is over.

    While no run is live and `has_more` finds nothing else, it only waits for the station's bell. A
    database that is away is waited for: the lease, not this loop, decides whose the work is when it
    returns. The slice ends early when the worker is asked to stop.
    """
    ends = time.monotonic() + settings.SLICE_SECONDS
    longest = min(RESTING_SECONDS, settings.LEASE_SECONDS / 4)  # heartbeats come between two looks
    pause = IDLE_SECONDS
    while not stopping.is_asked() and (time.monotonic() < ends or not bells.reachable()):
        try:
            if station in _here:
                _here[station].keep()
            busy = (Run.objects.running().exists() or has_more()) and serve()
        except (OperationalError, InterfaceError) as error:
            if is_conflict(error):
                log.info("lock_conflict", work=station, error=str(error).strip())
                continue
            log.warning("database_away", station=station, error=str(error).strip())
            close_old_connections()
            bells.wait(station, OUTAGE_SECONDS)
            continue
        was_woken = busy or bells.wait(station, pause)
        pause = IDLE_SECONDS if was_woken else min(2 * pause, longest)
    if not stopping.is_asked():
        wakeups.send(station)


def register(role: str, **described: object) -> Worker:
    """This process's row among the workers, made at its first job and kept by its heartbeat."""
    worker = enter(role, **described)
    _here[STATION_OF[role]] = Attendance(worker)
    return worker


@worker_process_shutdown.connect
def say_goodbye(**_: object) -> None:
    """What ends in order is not found dead. Where the database is away its silence must do."""
    for attendance in _here.values():
        try:
            attendance.worker.stop()
        except Error as error:
            log.warning("database_away", worker=attendance.worker.key, error=str(error).strip())
