"""Deletion of projects: what prevents it, what goes and what stays, and the order to a worker.

A project whose deletion is confirmed is at once out of everybody's reach. Its runs, rows and files
go afterwards, in small transactions (workers.run_removal).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Exists, Manager, OuterRef, Q, QuerySet, Sum
from django.utils import timezone

from apps.accounts.locking import lock_one, unit_of_work
from apps.accounts.models import AuditEntry, Project, User
from apps.leases.work import LeasedWork
from apps.policies.models import Policy, PolicyImport
from apps.runs.deleting import JOB, NAMED, Contents, NotDeletable
from apps.runs.models import ExportJob, ProjectRemoval, Run, WeightVersion
from apps.streaming import wakeups
from apps.tasksets.models import TasksetImport

AT_WORK = (Run.State.RUNNING, Run.State.PAUSED)


def reasons_against(project: Project) -> list[str]:
    """Return what prevents the deletion, as sentences; empty if nothing does."""
    return list(_reasons(project))


def _reasons(project: Project) -> Iterator[str]:
    if names := _first_names(project.runs.filter(state__in=AT_WORK), "slug"):
        yield f"Stop these runs first: {names}."
    exports = ExportJob.objects.open().filter(weight_version__run__project=project)
    if names := _first_names(exports, "weight_version__run__slug"):
        yield f"Weights of these runs are being exported or copied: {names}. Wait for it."
    if names := _first_names(project.runs.filter(rescorings__state__in=LeasedWork.OPEN), "slug"):
        yield f"These runs are being rescored: {names}. Wait for it, or stop it."
    if names := _first_names(TasksetImport.objects.open().filter(project=project), "name"):
        yield f"These files are being imported: {names}. Wait for it, or stop it."
    if names := _first_names(PolicyImport.objects.open().filter(project=project), "slug"):
        yield f"These models are being added: {names}. Wait for it, or stop it."


def _first_names(rows: QuerySet[Any], field: str) -> str:
    """Return the names of the first few rows, and whether there are more; "" for none."""
    names = list(rows.order_by(field).values_list(field, flat=True).distinct()[: NAMED + 1])
    listed = ", ".join(names[:NAMED])
    return f"{listed} and others" if len(names) > NAMED else listed


def contents_of(project: Project) -> Contents:
    """Count what a deletion removes and what it keeps."""
    lessons = (project.demonstrations, project.preferences, project.thumbs)
    models = project.policies.count()
    shared = len(shared_folders(project))
    return Contents(
        goes=(
            (project.runs.filter(is_evaluation=False).count(), "run", "runs"),
            (project.runs.filter(is_evaluation=True).count(), "evaluation", "evaluations"),
            (_count(project.runs, "rollouts"), "rollout", "rollouts"),
            (_count(project.runs, "ratings"), "rating", "ratings"),
            (project.tasksets.count(), "taskset", "tasksets"),
            (_count(project.tasksets, "tasks"), "task", "tasks"),
            (models, "model", "models"),
            (sum(rows.count() for rows in lessons), "lesson", "lessons"),
            (project.environments.count(), "environment", "environments"),
            (_count(project.environments, "episodes"), "episode", "episodes"),
            (project.arenas.count(), "arena", "arenas"),
            (_count(project.arenas, "pairings__cast_votes"), "vote", "votes"),
            (project.pictures.count(), "picture", "pictures"),
            (project.memberships.count(), "membership", "memberships"),
        ),
        stays=(
            (
                shared,
                "model’s files, which another project uses",
                "models’ files, which other projects use",
            ),
        ),
        bytes=_weight_bytes(project),
    )


def _count(rows: "Manager[Any]", relation: str) -> int:
    """Count the rows that refer to these, by the name of the relation."""
    return int(rows.order_by().aggregate(count=Count(relation))["count"])


def _weight_bytes(project: Project) -> int:
    """Return the size of the weights and exports of the project's runs."""
    versions = WeightVersion.objects.filter(run__project=project, version__gt=0)
    exported = ExportJob.objects.filter(weight_version__run__project=project).exclude(folder="")
    published = versions.filter(state=WeightVersion.State.PUBLISHED)
    sums = [rows.aggregate(bytes=Sum("bytes"))["bytes"] or 0 for rows in (published, exported)]
    return sum(sums)


def shared_folders(project: Project) -> set[str]:
    """Return the folders of the project's models that another project uses: they stay."""
    other_policies = Policy.objects.filter(folder=OuterRef("folder")).exclude(project=project)
    versions = WeightVersion.objects.filter(folder=OuterRef("folder"))
    used = Q(Exists(other_policies)) | Q(Exists(versions.exclude(run__project=project)))
    return set(project.policies.filter(used).values_list("folder", flat=True))


def own_folders(project: Project) -> list[Path]:
    """Return the folders of models that go with the project.

    Those that other projects use stay, and so do those outside the folder of weights, which
    somebody else has put there.
    """
    shared = shared_folders(project)
    folders = project.policies.order_by("folder").values_list("folder", flat=True).distinct()
    ours = settings.WEIGHTS_ROOT / "policies"
    paths = [Path(folder) for folder in folders if folder not in shared]
    return [path for path in paths if ours in path.parents]


@unit_of_work
def delete_project(project: Project, by: User | None) -> ProjectRemoval:
    """Order the deletion of the project with all that is in it.

    Raises NotDeletable with the reasons. The project's row is locked, as it is by each start of a
    run; a project in the archive starts none.
    """
    locked = lock_one(Project.objects.filter(pk=project.pk))
    if locked.deleting_since:
        raise NotDeletable(f"{locked.slug} is being deleted already.")
    if against := reasons_against(locked):
        raise NotDeletable(" ".join(against))
    now = timezone.now()
    Project.objects.filter(pk=locked.pk).update(deleting_since=now, archived_at=now)
    removal = ProjectRemoval.objects.create(
        project=locked, slug=locked.slug, title=locked.title, by=by, runs=locked.runs.count()
    )
    AuditEntry.record("project deletion ordered", removal.address, by, locked, title=locked.title)
    transaction.on_commit(lambda: wakeups.send(JOB), robust=True)
    return removal
