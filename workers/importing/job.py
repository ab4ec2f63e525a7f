"""The job that has files previewed and imported, in a process of their own while any is due."""

from celery import shared_task

from apps.accounts import confining
from apps.tasksets.models import TasksetImport
from workers.on_demand import OnDemand

# After the last file the process stays: who has sent a file and seen its preview starts the import.
IDLE_S = 30
importer = OnDemand("workers.importing", job="import_tasksets")


@shared_task(name="import_tasksets")
def start_importer(**_: object) -> None:
    """Start the importer if imports are due and it is not running.

    It is idempotent: two workers take different files. The importer dies with its worker; its
    import is then taken up again.
    """
    if not importer.is_running and TasksetImport.objects.due().exists():
        importer.start([str(IDLE_S)], confining.confined_environment())
