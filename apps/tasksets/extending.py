"""Tasks picked out one by one, put into a set that is tested with: a new set, or the next version of one, without what it has."""

from collections.abc import Sequence

from django.core.exceptions import ValidationError
from django.core.validators import validate_slug
from django.db import IntegrityError, transaction

from apps.accounts.models import AuditEntry, Project, User
from apps.tasksets.models import Task, Taskset
from apps.tasksets.storing import Origin, row_of, store
from apps.tasksets.versions import slug_of_next

SOURCE = "picked out by hand"
MOST = 5_000  # tasks of a set that is copied while a page waits


@transaction.atomic
def add_to_set(project: Project, slug: str, tasks: Sequence[Task], by: User) -> Taskset:
    """The set of this name with these tasks in it; where it is there already, its next version, since a set never changes.

    Raises ValueError with the reason, and stores nothing then.
    """
    known = Taskset.objects.filter(project=project, slug=slug).select_related("first").first()
    newest = known.versions.first() if known else None
    if newest and newest.grows:
        raise ValueError(f"{slug} grows by what callers ask; name a set that stays as it is")
    if newest and newest.size + len(tasks) > MOST:
        raise ValueError(f"{newest.slug} has {newest.size:,} tasks; sets of more than {MOST:,} are extended by a file")
    if newest is None:
        _require_slug(slug)
    before = list(newest.tasks.order_by("index")) if newest else []
    there = {task.digest for task in before}
    fresh = {task.digest: task for task in tasks if task.digest not in there}
    if not fresh:
        raise ValueError(f"{newest.slug} has {'it' if len(tasks) == 1 else 'them'} already")
    name = slug_of_next(newest) if newest else slug
    origin = Origin(project, name, newest.title if newest else f"Tests: {slug}", SOURCE, by=by, version_of=newest)
    try:
        with transaction.atomic():
            made = store(origin, map(row_of, [*before, *fresh.values()]))
    except IntegrityError:
        raise ValueError(f"a taskset {name} was made meanwhile; send it again") from None
    AuditEntry.record("tasks picked out", f"taskset {project.slug}/{name}", by, project, added=len(fresh))
    return made


def _require_slug(slug: str) -> None:
    try:
        validate_slug(slug)
    except ValidationError:
        raise ValueError(f"{slug!r} is no name of a set: use letters, digits, - and _") from None
    if len(slug) > Taskset._meta.get_field("slug").max_length:
        raise ValueError(f"a name has at most {Taskset._meta.get_field('slug').max_length} characters")
