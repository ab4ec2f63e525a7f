"""Invariants of tasksets, for `manage.py reconcile`: each check should find nothing."""

from collections.abc import Iterator

from django.db import connection
from django.db.models import Count, F

from apps.tasksets.models import TaskParent, Taskset

# sha256 over the tasks' digests in their order, as `apps.tasksets.storing` writes it.
AS_THEY_ARE = """
    SELECT s.slug, s.size, s.digest, count(t.id),
        encode(sha256(convert_to(coalesce(string_agg(t.digest, ''
            ORDER BY t.index), ''), 'UTF8')), 'hex')
    FROM tasksets_taskset s LEFT JOIN tasksets_task t ON t.taskset_id = s.id
    WHERE NOT s.grows GROUP BY s.id ORDER BY s.id"""


def tasksets_are_unchanged() -> Iterator[str]:
    """Check that fixed sets still have their tasks in order, and that versions form one row."""
    with connection.cursor() as cursor:
        cursor.execute(AS_THEY_ARE)
        rows = cursor.fetchall()
    for slug, size, digest, count, current_digest in rows:
        if count != size:
            yield f"taskset {slug}: {count} tasks for a size of {size}"
        elif digest != current_digest:
            yield (
                f"taskset {slug}: the tasks have digest {current_digest[:12]}, but the stored "
                f"digest is {digest[:12]}"
            )
    for taskset in Taskset.objects.exclude(first=None).select_related("first"):
        if not taskset.versions.filter(version=taskset.version - 1).exists() or (
            taskset.first and taskset.first.first_id
        ):
            yield (
                f"taskset {taskset}: version {taskset.version} of {taskset.first} has no "
                "previous version"
            )


def derived_tasks_name_their_source() -> Iterator[str]:
    """Check that parents are in the same project, and that no task of a made set lacks one."""
    foreign_parents = TaskParent.objects.exclude(
        task__taskset__project=F("parent__taskset__project")
    )
    yield from (
        f"task {link.task}: made from {link.parent} of a different project"
        for link in foreign_parents.select_related("task", "parent")
    )
    with_parent_count = Taskset.objects.annotate(named=Count("tasks__descent"))
    for taskset in with_parent_count.filter(named__gt=0, grows=False).exclude(named=F("size")):
        yield (
            f"taskset {taskset}: only {taskset.named} of {taskset.size} tasks name the task "
            "they were made from"
        )
