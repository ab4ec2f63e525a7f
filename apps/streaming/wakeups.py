"""Wake-up messages for Celery jobs, coalesced: a job waits in its queue at most once.

A message says "look in the database"; a second one behind it would say nothing new. Whether one
waits is read from the queue itself, so there is no bookkeeping that could be lost: when Redis loses
its data, or a worker its message, the next attempt sends another. No message expires: a late one
still does its work.

Jobs of the control plane run one at a time. `running` marks one while it runs, and `send` skips it
meanwhile. The mark has a short life and is renewed by the worker (workers.control), so that a
killed worker costs seconds.
"""

import json
from collections.abc import Iterable

import structlog
from celery import current_app
from django.conf import settings
from kombu.exceptions import OperationalError

from apps.streaming import bells

log = structlog.get_logger(__name__)
MARK_SECONDS = 15  # how long a job counts as running after its worker was last heard of
SENDING_MS = 2_000  # how long one sender keeps others from sending the same job
MOST_READ = 200  # messages of a queue looked at, the newest first


def send(job: str) -> bool:
    """Send the job's message unless one waits, or the job runs and must not run twice.

    Returns whether Redis answered. Raises nothing: an unsent message is sent at the next attempt.
    """
    redis = bells.connection()
    turn = f"wakeup:sending:{job}"
    try:
        if not redis.set(turn, 1, nx=True, px=SENDING_MS):
            return True  # somebody else is sending it right now
        try:
            if not (redis.exists(mark(job)) or waits(job)):
                current_app.send_task(job, retry=False)
        finally:
            redis.delete(turn)
    except (*bells.DEAD_REDIS, OperationalError) as error:
        log.warning("wakeup_not_sent", job=job, error=str(error))
        return False
    return True


def waits(job: str) -> bool:
    """Whether a message for the job is in its queue. Raises DEAD_REDIS."""
    return job in jobs_in(queue_of(job))


def jobs_in(queue: str) -> list[str]:
    """Names of the jobs whose messages wait in the queue, the newest first. Raises DEAD_REDIS."""
    return [_job_of(message) for message in bells.connection().lrange(queue, 0, MOST_READ - 1)]


def _job_of(message: bytes) -> str:
    try:
        return str(json.loads(message)["headers"]["task"])
    except (ValueError, KeyError, TypeError):
        return ""  # not one of ours; the worker reports it


def queue_of(job: str) -> str:
    return settings.CELERY_TASK_ROUTES[job]["queue"]


def mark(job: str) -> str:
    """The key that exists while the job runs, of jobs that run one at a time."""
    return f"wakeup:running:{job}"


def keep_marks(jobs: Iterable[str]) -> None:
    """Set or renew the marks of running jobs. Raises DEAD_REDIS."""
    pipe = bells.connection().pipeline(transaction=False)
    for job in jobs:
        pipe.set(mark(job), 1, ex=MARK_SECONDS)
    pipe.execute()


def drop_mark(job: str) -> None:
    """The job has ended. Raises DEAD_REDIS."""
    bells.connection().delete(mark(job))
