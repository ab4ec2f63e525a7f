"""The shape of every job: look in the table, do what is due, for a few seconds; then let the next job ring.

A lost message costs seconds, never a row: beat rings every station each second, and each slice rings its own
successor. While Redis is away nobody could ring, so the slice simply goes on.
"""

import time
from collections.abc import Callable

import structlog
from celery import current_app
from celery.signals import worker_process_shutdown
from django.conf import settings
from django.db import Error, InterfaceError, OperationalError, close_old_connections

from apps.runs.attendance import Attendance, enter
from apps.runs.models import Run, Worker
from apps.streaming import bells
from workers import stopping

log = structlog.get_logger(__name__)
IDLE_SECONDS = 0.25
OUTAGE_SECONDS = 1.0
# A wake-up that nobody took in this time says nothing that the next one does not.
BELL_SECONDS = 2.0
STATION_OF = {
    Worker.Role.EXPLORER: "explore", Worker.Role.SCORER: "score", Worker.Role.REFINER: "refine", Worker.Role.TRAINER: "train",
}  # fmt: skip


def nothing_else() -> bool:
    """Most stations work for live runs alone."""
    return False


_here: dict[str, Attendance] = {}  # by station


def run_slice(station: str, serve: Callable[[], bool], has_more: Callable[[], bool] = nothing_else) -> None:
    """Call `serve` (does what is due, says whether there was any) until the slice is over.

    Returns at once when no run is live and nothing is due that needs none (`has_more`). A database that is away is
    waited for: the lease, not this loop, says whose the work is when it returns. The slice ends early
    when the worker is asked to stop.
    """
    ends = time.monotonic() + settings.SLICE_SECONDS
    while not stopping.is_asked() and (time.monotonic() < ends or not bells.reachable()):
        try:
            if station in _here:
                _here[station].keep()
            if not Run.objects.running().exists() and not has_more():
                return
            busy = serve()
        except (OperationalError, InterfaceError) as error:
            log.warning("database_away", station=station, error=str(error).strip())
            close_old_connections()
            bells.wait(station, OUTAGE_SECONDS)
            continue
        if not busy:
            bells.wait(station, IDLE_SECONDS)
    if not stopping.is_asked():
        current_app.send_task(station, expires=BELL_SECONDS)


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
