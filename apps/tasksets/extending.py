"""Addition of selected tasks to an evaluation set: a new set, or the next version of one.

Tasks that the set already has are left out.
"""

from collections.abc import Sequence

from django.db import IntegrityError, transaction

from apps.accounts.models import AuditEntry, Project, User
from apps.tasksets.models import Task, Taskset
from apps.tasksets.storing import Origin, build_row, require_slug, store_taskset
from apps.tasksets.versions import slug_of_next

SOURCE = "picked out by hand"
MAX_COPIED_TASKS = 5_000  # tasks of a set that is copied while a page waits


@transaction.atomic
def add_to_set(project: Project, slug: str, tasks: Sequence[Task], by: User) -> Taskset:
    """Return the taskset of this name with these tasks added.

    A taskset never changes, so an existing one gets a new version. Raises ValueError with the
    reason, and stores nothing then.
    """
    first = Taskset.objects.filter(project=project, slug=slug).select_related("first").first()
    newest = first.versions.first() if first else None
    if newest and newest.grows:
        raise ValueError(
            f"{slug} collects the prompts of callers and cannot be edited; choose another taskset"
        )
    if newest and newest.size + len(tasks) > MAX_COPIED_TASKS:
        raise ValueError(
            f"{newest.slug} has {newest.size:,} tasks; import a file to extend a taskset of "
            f"more than {MAX_COPIED_TASKS:,}"
        )
    if newest is None:
        require_slug(slug)
    before = list(newest.tasks.order_by("index")) if newest else []
    digests = {task.digest for task in before}
    new_tasks = {task.digest: task for task in tasks if task.digest not in digests}
    if newest and not new_tasks:
        raise ValueError(
            f"{newest.slug} already has {'this task' if len(tasks) == 1 else 'these tasks'}"
        )
    name = slug_of_next(newest) if newest else slug
    origin = Origin(
        project,
        name,
        newest.title if newest else f"Tests: {slug}",
        SOURCE,
        by=by,
        version_of=newest,
    )
    try:
        with transaction.atomic():
            taskset = store_taskset(origin, map(build_row, [*before, *new_tasks.values()]))
    except IntegrityError:
        raise ValueError(f"taskset {name} was created in the meantime; try again") from None
    AuditEntry.record(
        "tasks picked out", f"taskset {project.slug}/{name}", by, project, added=len(new_tasks)
    )
    return taskset
