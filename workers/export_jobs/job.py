"""The job that starts the process for orders while any is due."""

from celery import shared_task

from apps.runs.models import ExportJob
from workers.on_demand import OnDemand

process = OnDemand("workers.export_jobs", job="run_exports")


@shared_task(name="run_exports")
def start_export_jobs(**_: object) -> None:
    """Start the process that handles orders.

    Idempotent: two workers take different orders. The process dies with its worker; its order is
    then taken up again.
    """
    if not process.is_running and ExportJob.objects.due().exists():
        process.start()
