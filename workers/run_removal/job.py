"""The job that starts the process for deletions of runs while any is due."""

from celery import shared_task

from apps.runs.deleting import JOB
from apps.runs.models import RunRemoval
from workers.on_demand import OnDemand

process = OnDemand("workers.run_removal", job=JOB)


@shared_task(name=JOB)
def take_up(**_: object) -> None:
    """Start the process that deletes runs.

    Idempotent: two workers take different deletions. The process dies with its worker; its deletion
    is then continued by the next one.
    """
    if not process.is_running and RunRemoval.objects.due().exists():
        process.start()
