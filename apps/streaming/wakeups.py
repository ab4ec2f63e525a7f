"""Wake-up messages for Celery jobs, coalesced: a job waits in its queue at most once.

A message says "look in the database"; a second one behind it would add nothing. Whether one waits
is read from the queue itself, so there are no counters that could be lost: if Redis loses its data,
or a worker its message, the next attempt sends another. No message expires: a late one still does
its work.

Jobs of the control plane run one at a time. A mark exists while one runs. `send` then only notes
that the job was requested, and when it ends, it is sent once more, because it may have looked in
the database before the new work was there. The mark expires soon and is renewed by the worker
(workers.control_worker), so that a killed worker costs seconds.
"""

import json
from collections.abc import Iterable

import structlog
from celery import current_app
from django.conf import settings
from kombu.exceptions import OperationalError
from redis.exceptions import LockError

from apps.streaming import worker_notifications

log = structlog.get_logger(__name__)
MARK_SECONDS = 15  # seconds a job counts as running after its worker's last renewal
SENDING_S = 2.0  # how long one sender keeps others from sending the same job
SENDER_LOOKS_S = 0.005  # seconds between checks of whether it is the sender's turn
MAX_READ = 200  # messages of a queue that are read, the newest first
NOTE_IF_RUNNING = """
if redis.call('exists', KEYS[1]) == 0 then return 0 end
redis.call('set', KEYS[2], 1)
return 1
"""


def send(job: str) -> bool:
    """Send the job's message unless one waits; a job that runs is sent when it ends.

    Returns whether Redis answered. Raises nothing: an unsent message is sent at the next attempt.
    """
    redis = worker_notifications.connection()
    turn = redis.lock(
        f"wakeup:sending:{job}", SENDING_S, SENDER_LOOKS_S, blocking_timeout=2 * SENDING_S
    )
    try:
        with turn:
            if not (waits(job) or _note_if_running(job)):
                current_app.send_task(job, retry=False)
    except LockError:
        return True  # sending took longer than SENDING_S; another sender may have sent it as well
    except (*worker_notifications.DEAD_REDIS, OperationalError) as error:
        log.warning("wakeup_not_sent", job=job, error=str(error))
        return False
    return True


def _note_if_running(job: str) -> bool:
    """Request one more run if the job runs now; return whether it does."""
    return bool(
        worker_notifications.connection().eval(
            NOTE_IF_RUNNING, 2, running_key(job), request_key(job)
        )
    )


def waits(job: str) -> bool:
    """Tell whether a message for the job is in its queue. Raise DEAD_REDIS."""
    return job in jobs_in(find_queue(job))


def jobs_in(queue: str) -> list[str]:
    """Return the names of the jobs whose messages are in the queue, newest first.

    Raises DEAD_REDIS.
    """
    return [
        _job_of(message)
        for message in worker_notifications.connection().lrange(queue, 0, MAX_READ - 1)
    ]


def _job_of(message: bytes | str) -> str:
    try:
        return str(json.loads(message)["headers"]["task"])
    except (ValueError, KeyError, TypeError):
        return ""  # not one of ours; the worker reports it


def find_queue(job: str) -> str:
    return settings.CELERY_TASK_ROUTES[job]["queue"]


def running_key(job: str) -> str:
    """Return the key that exists while a job runs that may only run once at a time."""
    return f"wakeup:running:{job}"


def request_key(job: str) -> str:
    """Return the key that exists if the job was requested while it ran."""
    return f"wakeup:asked:{job}"


def begin_job(job: str) -> None:
    """Mark the job as running. Raise DEAD_REDIS.

    Requests until now are covered by this run.
    """
    pipe = worker_notifications.connection().pipeline()
    pipe.set(running_key(job), 1, ex=MARK_SECONDS)
    pipe.delete(request_key(job))
    pipe.execute()


def keep_marks(jobs: Iterable[str]) -> None:
    """Renew the marks of running jobs. Raise DEAD_REDIS."""
    pipe = worker_notifications.connection().pipeline(transaction=False)
    for job in jobs:
        pipe.set(running_key(job), 1, ex=MARK_SECONDS)
    pipe.execute()


def finish_job(job: str) -> bool:
    """Remove the mark; return whether the job was requested meanwhile. Raise DEAD_REDIS."""
    pipe = worker_notifications.connection().pipeline()
    pipe.delete(running_key(job))
    pipe.getdel(request_key(job))
    return bool(pipe.execute()[1])
