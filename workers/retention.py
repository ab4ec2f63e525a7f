"""The retention job: delete arrays of rollouts that are no longer needed, by each run's rule."""

import time

import structlog
from celery import shared_task
from django.conf import settings

from apps.accounts.locking import retrying
from apps.buffer.retention import ReleaseSize, find_retention_rule, released
from apps.runs.models import LogLine, Run

log = structlog.get_logger(__name__)


@shared_task(name="retain")
@retrying
def retain(**_: object) -> None:
    """Delete arrays for one slice of time, the oldest runs first; the next job continues.

    Old log lines are deleted too. Idempotent; two at once do no harm.
    """
    ends = time.monotonic() + settings.SLICE_SECONDS
    if settings.LOG_ROWS and (lines := LogLine.objects.prune(settings.LOG_DAYS, settings.LOG_ROWS)):
        log.info("log_lines_deleted", lines=lines)
    for run in Run.objects.kept().exclude(state=Run.State.CREATED).order_by("pk"):
        rule = find_retention_rule(run)
        gone = ReleaseSize()
        for some in released(run, rule) if rule else ():
            gone += some
            if time.monotonic() > ends:
                break
        if gone.groups:
            log.info(
                "arrays_released",
                run=run,
                groups=gone.groups,
                rollouts=gone.rollouts,
                bytes=gone.bytes,
            )
        if time.monotonic() > ends:
            return
