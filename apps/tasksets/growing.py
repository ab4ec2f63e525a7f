"""Tasksets that grow: callers' prompts of a run that serves, and relabelled tasks.

The latter are those of apps.pipelines.offspring.

Nobody draws from them, for a draw needs a set that stays as it is.
"""

from django.db import transaction

from apps.accounts.locking import lock_one
from apps.accounts.models import Project, User
from apps.tasksets.models import Picture, Task, TaskParent, Taskset
from apps.tasksets.rows import TaskRow
from apps.tasksets.storing import build_task, require_slug

SOURCE = "asked by callers"


def grown_from_nothing(project: Project, slug: str, by: User | None = None) -> Taskset:
    """Return an empty one. Raises ValueError for what is no slug."""
    require_slug(slug)
    return Taskset.objects.create(
        project=project,
        slug=slug,
        title=f"What was asked: {slug}",
        source=SOURCE,
        grows=True,
        created_by=by,
    )


@transaction.atomic
def add_task(taskset_id: int, row: TaskRow) -> Task:
    """Return the next task of a growing set. Raises ValueError for one that does not grow."""
    taskset = lock_one(Taskset.objects.filter(pk=taskset_id))
    if not taskset.grows:
        raise ValueError(f"taskset {taskset.slug!r} does not grow")
    Picture.objects.keep(taskset.project, row.pictures)
    task = build_task(taskset, taskset.size, row)
    task.save(force_insert=True)
    if row.parent:
        TaskParent.objects.create(task=task, parent_id=row.parent)
    taskset.size += 1
    taskset.save(update_fields=["size"])
    return task
