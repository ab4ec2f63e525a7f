"""The job that has files previewed and imported: it keeps one process of this worker at each while any is due."""

import subprocess
import sys

import structlog
from celery import shared_task
from django.conf import settings

from apps.accounts import confining
from apps.tasksets.keeping import clear_away
from apps.tasksets.models import TasksetImport
from workers.importing.importing import LANES

log = structlog.get_logger(__name__)
_running: dict[str, subprocess.Popen] = {}


@shared_task(name="import")
def take_up(**_: object) -> None:
    """Idempotent; two workers take different files. The processes die with us, and what they held is taken up again."""
    if cleared := clear_away():
        log.info("imports_cleared_away", files=cleared)
    for lane in ("previews", "imports"):
        is_free = lane not in _running or _running[lane].poll() is not None
        if is_free and TasksetImport.objects.due().extra(where=[LANES[lane]]).exists():
            command = [sys.executable, "-m", "workers.importing", lane]
            _running[lane] = subprocess.Popen(command, cwd=settings.BASE_DIR, env=confining.environment())
