"""The job that looks for due work of the jobs that nothing else starts regularly.

Whoever creates such work sends its job at once. This job finds what is due by time (another attempt
after a failure), and what a lost message has left. It asks one statement for all kinds, where
sending each job regularly would cost a message and a look in the database for each.
"""

from typing import Any

from celery import shared_task
from django.db.models import QuerySet, Value

from apps.accounts.invitation_mails import due_mails
from apps.accounts.locking import retrying
from apps.alerts.delivering import due_deliveries
from apps.policies.models import PolicyImport, PolicyRemoval, TemplatePreview
from apps.runs.deleting import JOB as DELETE_RUNS
from apps.runs.models import ExportJob, ProjectRemoval, RunRemoval
from apps.streaming import wakeups
from apps.tasksets.models import TasksetImport


@shared_task(name="send_due_jobs")
@retrying
def find_work(**_: object) -> None:
    """Send each job that has work due. Idempotent; two at once do no harm."""
    for job in sorted(find_jobs()):
        wakeups.send(job)


def find_jobs() -> set[str]:
    """Return the names of the jobs that have work due, by one statement."""
    first, *further = (rows.order_by().values_list(Value(job))[:1] for job, rows in _due_rows())
    return {job for (job,) in first.union(*further, all=True)}


def _due_rows() -> list[tuple[str, QuerySet[Any]]]:
    return [
        ("deliver_alerts", due_deliveries()),
        ("send_invitations", due_mails()),
        ("import_tasksets", TasksetImport.objects.due()),
        ("run_exports", ExportJob.objects.due()),
        ("import_models", PolicyImport.objects.due()),
        ("import_models", PolicyRemoval.objects.due()),
        ("import_models", TemplatePreview.objects.due()),
        (DELETE_RUNS, RunRemoval.objects.due()),
        (DELETE_RUNS, ProjectRemoval.objects.due()),
    ]
