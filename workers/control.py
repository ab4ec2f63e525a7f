"""The control worker: short jobs in threads, so that none of them waits for another.

Each job of the control queue runs at most once at a time (apps.streaming.wakeups), and there are
more threads than kinds of jobs: a webhook that answers slowly, or a long look for suspicions,
delays no sweep. What needs minutes or much memory (imports, exports) runs in a process of its own,
which these jobs only start.
"""

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import structlog
from celery import Task
from celery.signals import (
    celeryd_after_setup,
    task_postrun,
    task_prerun,
    worker_ready,
    worker_shutdown,
)
from django.conf import settings

from apps.runs import log_keeper
from apps.runs.attendance import Presence
from apps.runs.models import Worker
from apps.streaming import bells, wakeups
from workers.processes import QUIET

log = structlog.get_logger(__name__)
QUEUE = "control"
JOBS = frozenset(
    job for job, route in settings.CELERY_TASK_ROUTES.items() if route["queue"] == QUEUE
)
_running: dict[str, float] = {}  # since when, by job
_marks = threading.Lock()  # a renewal must not set the mark of a job that has just ended
_presence: Presence | None = None


@task_prerun.connect
def note_start(task: Task, **_: object) -> None:
    if task.name not in JOBS:
        return
    with _marks:
        _running[task.name] = time.monotonic()
        _tell_redis(wakeups.begin, task.name)


@task_postrun.connect
def note_end(task: Task, **_: object) -> None:
    with _marks:
        began = _running.pop(task.name, None)
        is_asked_for = began is not None and _tell_redis(wakeups.finish, task.name)
    if is_asked_for:  # sent without the lock: it may wait for another sender
        wakeups.send(task.name)


def renew_marks() -> None:
    with _marks:
        if _running:
            _tell_redis(wakeups.keep_marks, list(_running))


def _tell_redis(what: Callable[[Any], bool | None], jobs: str | list[str]) -> bool | None:
    """Without Redis nobody sends a job, so nothing is lost when a mark is not written."""
    try:
        return what(jobs)
    except bells.DEAD_REDIS as error:
        log.warning("marks_not_written", jobs=jobs, error=str(error))
        return None


def doing() -> str:
    """What runs now, for the page of workers. Called every few seconds, and renews the marks."""
    renew_marks()
    now = time.monotonic()
    running = sorted(_running.items(), key=lambda one: one[1])
    return ", ".join(f"{job} for {now - since:.0f} s" for job, since in running) or "waiting"


def _serves_control(app: Any) -> bool:
    return QUEUE in app.amqp.queues.consume_from


@celeryd_after_setup.connect
def settle_in(instance: Any, **_: object) -> None:
    """Prepare a worker without pool children; these have their own start (workers.processes)."""
    if _serves_control(instance.app):
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)
        log_keeper.begin(QUEUE)


@worker_ready.connect
def be_present(sender: Any, **_: object) -> None:
    global _presence
    if _serves_control(sender.app):
        _presence = Presence(Worker.Role.CONTROL, doing)
        _presence.begin()


@worker_shutdown.connect
def say_goodbye(**_: object) -> None:
    if _presence is not None:
        _presence.end()
        log_keeper.end()
