"""Versions: a taskset never changes, and what was mended comes as another set that says of which it is a later version."""

from django.db import connection

from apps.accounts.locking import lock_one
from apps.accounts.models import Project
from apps.tasksets.models import Taskset

LONGEST_SLUG = 50


def newest_of(taskset: Taskset, project: Project) -> Taskset:
    """The newest version of this set, which the next one follows; nobody else adds one before the transaction ends.

    Raises ValueError for a set that can have none.
    """
    if taskset.project_id != project.pk:
        raise ValueError(f"{taskset.slug!r} is of another project")
    if taskset.grows:
        raise ValueError(f"{taskset.slug!r} grows by what callers ask, so it has no versions")
    lock_one(Taskset.objects.filter(pk=taskset.first_id or taskset.pk))
    return taskset.versions.select_related("first").first()


def slug_of_next(taskset: Taskset) -> str:
    """What the next version is called where nobody says otherwise: the first one's name with `-v2`, `-v3` …"""
    newest = taskset.versions.select_related("first").first()
    end = f"-v{newest.version + 1}"
    return (newest.first or newest).slug[: LONGEST_SLUG - len(end)] + end


def changes(before: Taskset, after: Taskset) -> tuple[int, int]:
    """(tasks that are new, tasks that are gone), equal ones counted as often as they stand there.

    Raises ValueError where both have the same tasks in the same order.
    """
    if before.digest == after.digest:
        raise ValueError(f"nothing has changed: it has the tasks of {before.slug!r} in their order")
    with connection.cursor() as cursor:
        cursor.execute(CHANGES, {"before": before.pk, "after": after.pk})
        return cursor.fetchone()


CHANGES = """
    SELECT coalesce(sum(greatest(0, n)), 0), coalesce(sum(greatest(0, -n)), 0) FROM (
        SELECT sum(CASE WHEN taskset_id = %(after)s THEN 1 ELSE -1 END) AS n FROM tasksets_task
        WHERE taskset_id IN (%(before)s, %(after)s) GROUP BY digest) counted"""
