"""The archive of projects, and the deletion of empty ones.

Lists leave an archived project out, and its runs cannot start.
"""

from django.db import transaction
from django.db.models import Exists, ProtectedError
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


def _record(project: Project, by: User | None, act: str, at: object) -> None:
    Project.objects.filter(pk=project.pk).update(archived_at=at)
    AuditEntry.record(act, f"project {project.slug}", by, project)


# What holds a project: its relations whose rows nothing deletes with the project, in words.
CONTENTS = {
    "runs": "runs",
    "tasksets": "tasksets",
    "policies": "models",
    "environments": "environments",
    "arenas": "arenas",
    "demonstrations": "demonstrations",
    "preferences": "preferences",
    "thumbs": "thumbs",
    "pictures": "pictures",
    "imported_raters": "imported raters",
}


def why_project_stays(project: Project) -> str:
    """Return what keeps the project from being deleted, as a sentence; "" for an empty one."""
    rows = {name: getattr(project, name).all() for name in CONTENTS}
    found = Project.objects.filter(pk=project.pk).values_list(*map(Exists, rows.values()))
    present = [
        words for words, is_there in zip(CONTENTS.values(), found.get(), strict=True) if is_there
    ]
    return f"It still has {', '.join(present)}." if present else ""


@unit_of_work
def delete_project(project: Project, by: User | None) -> None:
    """Delete an empty project with its memberships, invitations and channels.

    The audit log stays. Raises NotPossible with what the project still has.
    """
    locked = lock_one(Project.objects.filter(pk=project.pk))
    if why := why_project_stays(locked):
        raise NotPossible(why)
    address = f"project {locked.slug}"
    try:
        with transaction.atomic():
            locked.delete()
    except ProtectedError as error:  # something was added meanwhile
        raise NotPossible("Something was added to it just now.") from error
    AuditEntry.record("project deleted", address, by, title=locked.title)
