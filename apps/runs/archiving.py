"""The archive of projects.

Lists leave an archived project out, and its runs cannot start.
"""

from django.utils import timezone

from apps.accounts.locking import lock_one, unit_of_work
from apps.accounts.models import AuditEntry, Project, User
from apps.runs.models import NotPossible, Run

NAMED = 3  # runs named in a message
AT_WORK = (Run.State.RUNNING, Run.State.PAUSED)


@unit_of_work
def archive_project(project: Project, by: User | None) -> None:
    """Archive the project. Raise NotPossible while runs of it are at work: they cost money.

    The project's row is locked, as it is by each start of a run.
    """
    locked = lock_one(Project.objects.filter(pk=project.pk))
    if locked.archived_at:
        return
    working = list(locked.runs.filter(state__in=AT_WORK).values_list("slug", flat=True))
    if working:
        more = f" and {len(working) - NAMED} more" if len(working) > NAMED else ""
        raise NotPossible(f"Stop these runs first: {', '.join(working[:NAMED])}{more}.")
    _record(locked, by, "project archived", timezone.now())


@unit_of_work
def restore_project(project: Project, by: User | None) -> None:
    """Take the project out of the archive; do nothing if it is not there."""
    locked = lock_one(Project.objects.filter(pk=project.pk))
    if locked.archived_at:
        _record(locked, by, "project restored", None)


def _record(project: Project, by: User | None, action: str, at: object) -> None:
    Project.objects.filter(pk=project.pk).update(archived_at=at)
    AuditEntry.record(action, f"project {project.slug}", by, project)
