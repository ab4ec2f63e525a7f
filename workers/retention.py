"""The retention job: delete what is no longer needed.

That is the arrays of rollouts, by each run's rule, old log lines, and files of uploads and imports
that were given up.
"""

import time

import structlog
from celery import shared_task
from django.conf import settings

from apps.accounts.locking import retrying
from apps.buffer.retention import ReleaseSize, find_retention_rule, released
from apps.policies.uploads import clear_uploads
from apps.runs.models import LogLine, Run
from apps.tasksets.import_files import clear_away

log = structlog.get_logger(__name__)


@shared_task(name="apply_retention")
@retrying
def retain(**_: object) -> None:
    """Delete files and log lines, then arrays for one slice of time, the oldest runs first.

    The next job continues. Idempotent; two at once do no harm.
    """
    _clear_files()
    ends = time.monotonic() + settings.SLICE_SECONDS
    if settings.LOG_ROWS and (lines := LogLine.objects.prune(settings.LOG_DAYS, settings.LOG_ROWS)):
        log.info("log_lines_deleted", lines=lines)
    for run in Run.objects.kept().exclude(state=Run.State.CREATED).order_by("pk"):
        rule = find_retention_rule(run)
        released_size = ReleaseSize()
        for some in released(run, rule) if rule else ():
            released_size += some
            if time.monotonic() > ends:
                break
        if released_size.groups:
            log.info(
                "arrays_released",
                run=run,
                groups=released_size.groups,
                rollouts=released_size.rollouts,
                bytes=released_size.bytes,
            )
        if time.monotonic() > ends:
            return


def _clear_files() -> None:
    """Give up imports and uploads that nobody continued, and delete their files."""
    if cleared := clear_away():
        log.info("import_files_deleted", files=cleared)
    if cleared := clear_uploads():
        log.info("model_uploads_deleted", uploads=cleared)
