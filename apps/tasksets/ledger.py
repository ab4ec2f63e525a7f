"""What must be true of tasksets whatever happens, each as a question whose right answer is "none"."""

from collections.abc import Iterator

from django.db import connection
from django.db.models import Count, F

from apps.tasksets.models import TaskParent, Taskset

# sha256 over the tasks' digests in their order, as `apps.tasksets.storing` writes it.
AS_THEY_ARE = """
    SELECT s.slug, s.size, s.digest, count(t.id),
        encode(sha256(convert_to(coalesce(string_agg(t.digest, '' ORDER BY t.index), ''), 'UTF8')), 'hex')
    FROM tasksets_taskset s LEFT JOIN tasksets_task t ON t.taskset_id = s.id
    WHERE NOT s.grows GROUP BY s.id ORDER BY s.id"""


def tasksets_are_what_they_were() -> Iterator[str]:
    """A set that does not grow has the tasks that were stored with it, in their order; its versions are one row."""
    with connection.cursor() as cursor:
        cursor.execute(AS_THEY_ARE)
        rows = cursor.fetchall()
    for slug, size, digest, count, found in rows:
        if count != size:
            yield f"taskset {slug}: {count} tasks for a size of {size}"
        elif digest != found:
            yield f"taskset {slug}: its tasks have the digest {found[:12]}, and were stored with {digest[:12]}"
    for taskset in Taskset.objects.exclude(first=None).select_related("first"):
        if not taskset.versions.filter(version=taskset.version - 1).exists() or taskset.first.first_id:
            yield f"taskset {taskset}: version {taskset.version} of {taskset.first} follows none"


def tasks_made_of_others_name_them() -> Iterator[str]:
    """A parent is of the same project, and in a set that was stored as made of others each task has one."""
    strangers = TaskParent.objects.exclude(task__taskset__project=F("parent__taskset__project"))
    yield from (f"task {one.task}: made of {one.parent}, of another project" for one in strangers.select_related("task", "parent"))
    counted = Taskset.objects.annotate(named=Count("tasks__descent"))
    for taskset in counted.filter(named__gt=0, grows=False).exclude(named=F("size")):
        yield f"taskset {taskset}: {taskset.named} of {taskset.size} tasks name the task that they were made of"
