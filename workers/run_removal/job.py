"""The job that starts the process for deletions of runs and projects while any is due."""

from celery import shared_task

from apps.runs.deleting import JOB
from apps.runs.models import ProjectRemoval, RunRemoval
from workers.on_demand import OnDemand

process = OnDemand("workers.run_removal", job=JOB)


@shared_task(name=JOB)
def take_up(**_: object) -> None:
    """Start the process that deletes runs and projects.

    Idempotent: two workers take different deletions. The process dies with its worker; its deletion
    is then continued by the next one.
    """
    is_due = RunRemoval.objects.due().exists() or ProjectRemoval.objects.due().exists()
    if is_due and not process.is_running:
        process.start()
