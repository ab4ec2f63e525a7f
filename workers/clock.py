"""Beat among the workers: the process that rings every station tells how many kinds of bells it rings, and when it last could.

Celery says when beat begins; beat leaves by SystemExit, so its goodbye is an exit handler. Loaded by every Celery process, and
does something in beat alone.
"""

import atexit
import time

from celery.beat import Service
from celery.signals import after_task_publish, beat_init

from apps.runs import log_keeper
from apps.runs.attendance import Presence
from apps.runs.models import Worker

LATE_S = 5.0  # stations are rung each second
_rung_at = time.monotonic()


@beat_init.connect
def begin(sender: Service, **_: object) -> None:
    log_keeper.begin("beat")
    after_task_publish.connect(_hear_the_bell)
    kinds = len(sender.scheduler.schedule)
    presence = Presence(Worker.Role.BEAT, lambda: doing(kinds))
    presence.begin()
    atexit.register(presence.end)


def doing(kinds: int) -> str:
    """Whether bells go out: while Redis is away beat tries again and again, and none does."""
    silent = time.monotonic() - _rung_at
    late = f", none went out for {silent:.0f} s" if silent > LATE_S else ""
    return f"rings {kinds} kinds of bells{late}"


def _hear_the_bell(**_: object) -> None:
    global _rung_at
    _rung_at = time.monotonic()
