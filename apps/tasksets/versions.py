"""Versions of tasksets: a correction is another set that names the set it follows."""

from django.db import connection

from apps.accounts.locking import lock_one
from apps.accounts.models import Project
from apps.tasksets.models import Taskset

MAX_SLUG_LENGTH = 50


def find_newest_version(taskset: Taskset, project: Project) -> Taskset:
    """Return the newest version of this set, which the next one follows.

    Nobody else adds one before the transaction ends.

    Raises ValueError for a set that can have none.
    """
    if taskset.project_id != project.pk:
        raise ValueError(f"{taskset.slug!r} belongs to another project")
    if taskset.grows:
        raise ValueError(f"{taskset.slug!r} collects the prompts of callers, so it has no versions")
    lock_one(Taskset.objects.filter(pk=taskset.first_id or taskset.pk))
    return _newest(taskset)


def _newest(taskset: Taskset) -> Taskset:
    newest = taskset.versions.select_related("first").first()
    assert newest is not None  # the set itself is one of its versions
    return newest


def slug_of_next(taskset: Taskset) -> str:
    """Return the default slug of the next version: the first one's, with `-v2`, `-v3` and so on."""
    newest = _newest(taskset)
    end = f"-v{newest.version + 1}"
    return (newest.first or newest).slug[: MAX_SLUG_LENGTH - len(end)] + end


def count_changes(before: Taskset, after: Taskset) -> tuple[int, int]:
    """Return how many tasks are new and how many are gone; equal tasks are counted each time.

    Raises ValueError if both have the same tasks in the same order.
    """
    if before.digest == after.digest:
        raise ValueError(f"nothing has changed: same tasks in the same order as {before.slug!r}")
    with connection.cursor() as cursor:
        cursor.execute(CHANGES, {"before": before.pk, "after": after.pk})
        return cursor.fetchone()


CHANGES = """
    SELECT coalesce(sum(greatest(0, n)), 0), coalesce(sum(greatest(0, -n)), 0) FROM (
        SELECT sum(CASE WHEN taskset_id = %(after)s THEN 1 ELSE -1 END) AS n FROM tasksets_task
        WHERE taskset_id IN (%(before)s, %(after)s) GROUP BY digest) counted"""
