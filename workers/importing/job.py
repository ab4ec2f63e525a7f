"""The job that has files imported: it sees to it that one process of this worker does so while any is due."""

import subprocess
import sys

import structlog
from celery import shared_task
from django.conf import settings

from apps.tasksets.keeping import clear_away
from apps.tasksets.models import TasksetImport

log = structlog.get_logger(__name__)
_importing: subprocess.Popen | None = None


@shared_task(name="import")
def take_up(**_: object) -> None:
    """Idempotent; two workers take different files. The process dies with us, and what it held is taken up again."""
    global _importing
    if cleared := clear_away():
        log.info("imports_cleared_away", files=cleared)
    if (_importing is None or _importing.poll() is not None) and TasksetImport.objects.due().exists():
        _importing = subprocess.Popen([sys.executable, "-m", "workers.importing"], cwd=settings.BASE_DIR)
