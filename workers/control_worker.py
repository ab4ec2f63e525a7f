"""The control worker: short jobs in threads, so that none of them waits for another.

Each job of the control queue runs at most once at a time (apps.streaming.wakeups), and there are
more threads than kinds of jobs: a slow webhook, or a long search for reward hacking, delays no
sweep. Work that takes minutes or much memory (imports, exports) runs in a separate process, which
these jobs only start.
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
from apps.runs.models import Worker
from apps.runs.worker_registry import ServerRegistration
from apps.streaming import wakeups, worker_notifications
from workers.processes import QUIET

log = structlog.get_logger(__name__)
QUEUE = "control"
JOBS = frozenset(
    job for job, route in settings.CELERY_TASK_ROUTES.items() if route["queue"] == QUEUE
)
_running: dict[str, float] = {}  # start times, by job
_marks = threading.Lock()  # a renewal must not set the mark of a job that has just ended
_presence: ServerRegistration | None = None


@task_prerun.connect
def note_start(task: Task, **_: object) -> None:
    if task.name not in JOBS:
        return
    with _marks:
        _running[task.name] = time.monotonic()
        _tell_redis(wakeups.begin_job, task.name)


@task_postrun.connect
def note_end(task: Task, **_: object) -> None:
    with _marks:
        began = _running.pop(task.name, None)
        is_asked_for = began is not None and _tell_redis(wakeups.finish_job, task.name)
    if is_asked_for:  # sent without the lock, since it may wait for another sender
        wakeups.send(task.name)


def renew_marks() -> None:
    with _marks:
        if _running:
            _tell_redis(wakeups.keep_marks, list(_running))


def _tell_redis(what: Callable[[Any], bool | None], jobs: str | list[str]) -> bool | None:
    """Write marks to Redis; without Redis log a warning.

    No job is sent then, so a missing mark loses nothing.
    """
    try:
        return what(jobs)
    except worker_notifications.DEAD_REDIS as error:
        log.warning("job_state_not_written", jobs=jobs, error=str(error))
        return None


def describe_jobs() -> str:
    """Return which jobs run now, for the page of workers, and renew their marks.

    Called every few seconds.
    """
    renew_marks()
    now = time.monotonic()
    running = sorted(_running.items(), key=lambda job_start: job_start[1])
    return ", ".join(f"{job} for {now - since:.0f} s" for job, since in running) or "waiting"


def _serves_control(app: Any) -> bool:
    return QUEUE in app.amqp.queues.consume_from


@celeryd_after_setup.connect
def prepare_worker(instance: Any, **_: object) -> None:
    """Prepare a worker without pool children, which have their own start (workers.processes)."""
    if _serves_control(instance.app):
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)
        log_keeper.begin_keeping(QUEUE)


@worker_ready.connect
def be_present(sender: Any, **_: object) -> None:
    global _presence
    if _serves_control(sender.app):
        _presence = ServerRegistration(Worker.Role.CONTROL, describe_jobs)
        _presence.begin()


@worker_shutdown.connect
def mark_worker_stopped(**_: object) -> None:
    if _presence is not None:
        _presence.end()
        log_keeper.finish_keeping()
