"""The job that has files previewed and imported, in a process of their own while any is due."""

import structlog
from celery import shared_task

from apps.accounts import confining
from apps.tasksets.keeping import clear_away
from apps.tasksets.models import TasksetImport
from workers.on_demand import OnDemand

log = structlog.get_logger(__name__)
# After the last file the process stays: who has sent a file and seen its preview starts the import.
IDLE_S = 30
importer = OnDemand("workers.importing", job="import")


@shared_task(name="import")
def take_up(**_: object) -> None:
    """Idempotent: two workers take different files. The process dies with its worker; what it
    held is taken up again.
    """
    if cleared := clear_away():
        log.info("imports_cleared_away", files=cleared)
    if not importer.is_running and TasksetImport.objects.due().exists():
        importer.start([str(IDLE_S)], confining.environment())
