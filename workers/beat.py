"""Celery beat: sends the jobs of the control plane, and is registered among the workers.

Celery signals when beat begins; beat exits by SystemExit, so its deregistration is an exit handler.
This module is loaded by every Celery process and is active in beat alone.
"""

import atexit
import time
from typing import Any

from celery.beat import ScheduleEntry, Scheduler, Service
from celery.signals import beat_init

from apps.runs import log_keeper
from apps.runs.models import Worker
from apps.runs.worker_registry import ServerRegistration
from apps.streaming import wakeups

LATE_S = 15.0  # several times the shortest period
_answered_at = time.monotonic()


class CoalescingScheduler(Scheduler):  # type: ignore[misc]  # Celery has no types
    """A scheduler that sends a due job only if it neither waits nor runs.

    It stores nothing on disk: all jobs are due at the start.
    """

    def apply_async(
        self, entry: ScheduleEntry, producer: Any = None, advance: bool = True, **_: object
    ) -> None:
        global _answered_at
        if wakeups.send(entry.task):
            _answered_at = time.monotonic()


@beat_init.connect
def begin_schedule(sender: Service, **_: object) -> None:
    log_keeper.begin_keeping("beat")
    kinds = len(sender.scheduler.schedule)
    presence = ServerRegistration(Worker.Role.BEAT, lambda: describe_schedule(kinds))
    presence.begin()
    atexit.register(presence.end)


def describe_schedule(kinds: int) -> str:
    """Return a status text: how many jobs are scheduled, and since when none could be sent.

    While Redis is away, beat keeps trying and sends none.
    """
    silent = time.monotonic() - _answered_at
    late = f", none could be sent for {silent:.0f} s" if silent > LATE_S else ""
    return f"schedules {kinds} jobs{late}"
