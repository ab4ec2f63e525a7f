"""Beat: sends the jobs of the control plane, and is seen among the workers.

Celery says when beat begins; beat leaves by SystemExit, so its goodbye is an exit handler. Loaded
by every Celery process, and does something in beat alone.
"""

import atexit
import time
from typing import Any

from celery.beat import ScheduleEntry, Scheduler, Service
from celery.signals import beat_init

from apps.runs import log_keeper
from apps.runs.attendance import Presence
from apps.runs.models import Worker
from apps.streaming import wakeups

LATE_S = 15.0  # several times the shortest period
_answered_at = time.monotonic()


class CoalescingScheduler(Scheduler):
    """Sends a due job only if it neither waits nor runs. It keeps nothing on disk: all jobs are due
    at the start.
    """

    def apply_async(
        self, entry: ScheduleEntry, producer: Any = None, advance: bool = True, **_: object
    ) -> None:
        global _answered_at
        if wakeups.send(entry.task):
            _answered_at = time.monotonic()


@beat_init.connect
def begin(sender: Service, **_: object) -> None:
    log_keeper.begin("beat")
    kinds = len(sender.scheduler.schedule)
    presence = Presence(Worker.Role.BEAT, lambda: doing(kinds))
    presence.begin()
    atexit.register(presence.end)


def doing(kinds: int) -> str:
    """Whether jobs can be sent: while Redis is away beat tries again and again, and sends none."""
    silent = time.monotonic() - _answered_at
    late = f", none could be sent for {silent:.0f} s" if silent > LATE_S else ""
    return f"schedules {kinds} jobs{late}"
