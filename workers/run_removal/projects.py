"""Processing of the deletion of one project: arenas, runs, files, rows, then the project.

The runs have deletions of their own; this one orders them and waits until they are done. Each step
can be repeated, so a worker that takes over after a kill continues where rows are left.
"""

from pathlib import Path

import structlog
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, Sum

from apps.accounts.locking import retrying
from apps.accounts.models import AuditEntry, Project
from apps.leases.work import WorkOver
from apps.policies.models import PolicyImport, PolicyRemoval
from apps.runs.deleting import NotDeletable, delete_with_project
from apps.runs.deleting_projects import own_folders
from apps.runs.models import ProjectRemoval, Run, RunRemoval
from apps.tasksets.models import TasksetImport
from workers.run_removal.project_rows import (
    batches_before_runs,
    batches_of_project,
    count_project_rows,
    delete_project_row,
    delete_project_rows,
)
from workers.run_removal.removing import LOOK_AGAIN_S, failures_noted, remove_folders
from workers.run_removal.rows import Table, count_rows

log = structlog.get_logger(__name__)
RUNS_AT_ONCE = 20  # whose deletion one transaction orders


def remove_next_project(owner: str) -> bool:
    """Delete the oldest project that is due as far as its runs allow; return whether one was due.

    A database outage is raised: the deletion stays due.
    """
    removal = ProjectRemoval.objects.claim(owner, settings.LEASE_SECONDS)
    if removal is None:
        return False
    try:
        with failures_noted(removal):
            _remove(removal)
    except WorkOver as over:
        log.info("project_deletion_abandoned", removed=removal.slug, reason=str(over))
    return True


def _remove(removal: ProjectRemoval) -> None:
    project = removal.project
    if project is None:
        removal.finish()
        return
    try:
        while delete_with_project(project, removal.by, RUNS_AT_ONCE):
            removal.advance(0, settings.LEASE_SECONDS)
    except NotDeletable as error:
        removal.wait(str(error), LOOK_AGAIN_S)
        return
    if not removal.total:
        _count(removal, project)
    for table, keys in batches_before_runs(project.pk):
        _remove_batch(removal, table, keys)
    if failed := RunRemoval.objects.filter(project=project, state="failed").first():
        removal.fail(f"Run {failed.slug} could not be deleted. {failed.reason}")
        return
    if reason := _waits_for(removal):
        removal.wait(reason, LOOK_AGAIN_S)
        return
    _remove_files(removal, project)
    _remove_rows(removal, project)


def _count(removal: ProjectRemoval, project: Project) -> None:
    """Count what is to be deleted, for the progress."""
    runs = Run.objects.filter(project=project)
    rows = count_project_rows(project.pk) + sum(map(count_rows, runs))
    ProjectRemoval.objects.filter(pk=removal.pk).update(total=rows, runs=runs.count())


def _waits_for(removal: ProjectRemoval) -> str:
    """Return what must end before the project's rows can go; "" if nothing does."""
    remaining_runs = Run.objects.filter(project=removal.project_id).count()
    if remaining_runs:
        total = removal.runs_deleted + remaining_runs
        return f"Deleting runs: {removal.runs_deleted} of {total} are gone."
    imports = TasksetImport.objects.leased().filter(project=removal.project_id)
    if (
        imports.exists()
        or PolicyImport.objects.leased().filter(project=removal.project_id).exists()
    ):
        return "Waiting for an import to end."
    if PolicyRemoval.objects.open().filter(project=removal.project_id).exists():
        return "Waiting until the files of deleted models are gone."
    return ""


def _remove_files(removal: ProjectRemoval, project: Project) -> None:
    """Delete the models that no other project uses, and files of imports."""
    remove_folders(removal, own_folders(project))
    for row in TasksetImport.objects.filter(project=removal.project_id):
        row.forget_file()
    uploads = PolicyImport.objects.filter(project=removal.project_id)
    remove_folders(removal, [Path(row.upload_folder) for row in uploads])


@retrying
def _remove_batch(removal: ProjectRemoval, table: Table, keys: list[int]) -> None:
    with transaction.atomic():
        delete_project_rows(table, keys)
        removal.advance(len(keys), settings.LEASE_SECONDS)


def _remove_rows(removal: ProjectRemoval, project: Project) -> None:
    """Delete the project's rows, then its own row with an entry in the audit log.

    What somebody has added at this moment makes a transaction fail: the next attempt deletes it,
    too. The deletion fails if an attempt finds nothing more to delete.
    """
    rows = 0
    try:
        for table, keys in batches_of_project(project.pk):
            _remove_batch(removal, table, keys)
            rows += len(keys)
        _remove_project(removal, project)
    except IntegrityError as error:
        if not rows:
            raise
        log.info("project_not_empty", removed=removal.slug, error=str(error))
        removal.wait("Something was added to it meanwhile, and is deleted next.", LOOK_AGAIN_S)


@retrying
def _remove_project(removal: ProjectRemoval, project: Project) -> None:
    with transaction.atomic():
        of_runs = RunRemoval.objects.filter(project=removal.project_id).aggregate(
            done=Sum("done"), bytes=Sum("bytes")
        )
        ours = ProjectRemoval.objects.filter(pk=removal.pk)
        ours.update(
            done=F("done") + (of_runs["done"] or 0), bytes=F("bytes") + (of_runs["bytes"] or 0)
        )
        counts = ours.values("done", "bytes").get()
        AuditEntry.record(
            "project deleted",
            removal.address,
            removal.by,
            title=removal.title,
            rows=counts["done"],
            bytes=counts["bytes"],
        )
        removal.finish()
        delete_project_row(project.pk)
