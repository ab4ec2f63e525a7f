"""Wake-up messages for Celery jobs, coalesced: a job waits in its queue at most once.

A message says "look in the database"; a second one behind it would say nothing new. Whether one
waits is read from the queue itself, so there is no bookkeeping that could be lost: when Redis loses
its data, or a worker its message, the next attempt sends another. No message expires: a late one
still does its work.

Jobs of the control plane run one at a time. A mark exists while one runs; `send` then only notes
that the job was asked for, and at its end it is sent once more, because the run may have looked in the
database before the new work was there. The mark has a short life and is renewed by the worker
(workers.control), so that a killed worker costs seconds.
"""

import json
from collections.abc import Iterable

import structlog
from celery import current_app
from django.conf import settings
from kombu.exceptions import OperationalError
from redis.exceptions import LockError

from apps.streaming import bells

log = structlog.get_logger(__name__)
MARK_SECONDS = 15  # how long a job counts as running after its worker was last heard of
SENDING_S = 2.0  # how long one sender keeps others from sending the same job
SENDER_LOOKS_S = 0.005  # how often a sender looks whether it is its turn
MOST_READ = 200  # messages of a queue looked at, the newest first
NOTE_IF_RUNNING = """
if redis.call('exists', KEYS[1]) == 0 then return 0 end
redis.call('set', KEYS[2], 1)
return 1
"""


def send(job: str) -> bool:
    """Send the job's message unless one waits; a job that runs is sent when it ends.

    Returns whether Redis answered. Raises nothing: an unsent message is sent at the next attempt.
    """
    redis = bells.connection()
    turn = redis.lock(
        f"wakeup:sending:{job}", SENDING_S, SENDER_LOOKS_S, blocking_timeout=2 * SENDING_S
    )
    try:
        with turn:
            if not (waits(job) or _note_if_running(job)):
                current_app.send_task(job, retry=False)
    except LockError:
        return True  # it took longer than SENDING_S; another sender may have sent it, too
    except (*bells.DEAD_REDIS, OperationalError) as error:
        log.warning("wakeup_not_sent", job=job, error=str(error))
        return False
    return True


def _note_if_running(job: str) -> bool:
    """Ask for one more run if the job runs now; return whether it does."""
    return bool(bells.connection().eval(NOTE_IF_RUNNING, 2, mark(job), asked(job)))


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


def asked(job: str) -> str:
    """The key that exists if the job was asked for while it ran."""
    return f"wakeup:asked:{job}"


def begin(job: str) -> None:
    """Mark the job as running. What was asked for until now is its own work. Raises DEAD_REDIS."""
    pipe = bells.connection().pipeline()
    pipe.set(mark(job), 1, ex=MARK_SECONDS)
    pipe.delete(asked(job))
    pipe.execute()


def keep_marks(jobs: Iterable[str]) -> None:
    """Renew the marks of running jobs. Raises DEAD_REDIS."""
    pipe = bells.connection().pipeline(transaction=False)
    for job in jobs:
        pipe.set(mark(job), 1, ex=MARK_SECONDS)
    pipe.execute()


def finish(job: str) -> bool:
    """Drop the mark; return whether the job was asked for meanwhile. Raises DEAD_REDIS."""
    pipe = bells.connection().pipeline()
    pipe.delete(mark(job))
    pipe.getdel(asked(job))
    return bool(pipe.execute()[1])
