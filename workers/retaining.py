"""Retention: the arrays of rollouts that nothing may need any more are let go, by each run's rule."""

import time

import structlog
from celery import shared_task
from django.conf import settings

from apps.accounts.locking import retrying
from apps.buffer.retention import Going, released, rule_of
from apps.runs.models import LogLine, Run

log = structlog.get_logger(__name__)


@shared_task(name="retain")
@retrying
def retain(**_: object) -> None:
    """For one slice, the oldest runs first; what is left is due at the next. Idempotent; two at once do no harm."""
    ends = time.monotonic() + settings.SLICE_SECONDS
    if settings.LOG_ROWS and (lines := LogLine.objects.prune(settings.LOG_DAYS, settings.LOG_ROWS)):
        log.info("log_lines_deleted", lines=lines)
    for run in Run.objects.exclude(state=Run.State.CREATED).order_by("pk"):
        rule, gone = rule_of(run), Going()
        for some in released(run, rule) if rule else ():
            gone += some
            if time.monotonic() > ends:
                break
        if gone.groups:
            log.info("arrays_released", run=run, groups=gone.groups, rollouts=gone.rollouts, bytes=gone.bytes)
        if time.monotonic() > ends:
            return
