"""Scales of difficulty: one number for each task of a set, and the tasks in their order by it."""

from collections.abc import Mapping

from django.db import DataError, connection, transaction
from django.db.models import Max, Min

from apps.tasksets.models import DifficultyScale, TaskDifficulty, Taskset
from apps.tasksets.models.scales import DOMAIN, META

KNOWN_SHOWN = 20
MANY_TASKS = 10_000  # of a scale, from which reading all of them takes long
DOMAINS = "by domain"  # the name of the scale on which tasks stand domain by domain


def find_scale(taskset: Taskset, name: str) -> DifficultyScale:
    """Return the scale of this name; create it from the tasks' meta if there is none yet.

    A taskset never changes, so the scale never does. Raises ValueError with the names that exist.
    """
    scale = taskset.scales.filter(name=name).first()
    if scale and not scale.ready:
        raise ValueError(
            f"the scale {name!r} of {taskset.slug!r} has {scale.difficulties.count():,} of "
            f"{taskset.size:,} values so far: continue with `manage.py taskset difficulty`"
        )
    return scale or _create_from_meta(taskset, name)


@transaction.atomic
def scale_by_domain(taskset: Taskset) -> DifficultyScale:
    """Return the tasks domain by domain, with the domains as its bands.

    Made where there is none yet.
    """
    scale, is_new = DifficultyScale.objects.get_or_create(
        taskset=taskset, name=DOMAINS, defaults={"source": DOMAIN}
    )
    if is_new:
        values = (
            "SELECT id, index, (dense_rank() OVER (ORDER BY domain) - 1)::double precision AS value"
            " FROM tasksets_task"
        )
        _place(scale, f"{values} WHERE taskset_id = %s", [taskset.pk])
        ranges = (
            scale.difficulties.values("task__domain")
            .annotate(first=Min("place"), last=Max("place"))
            .order_by("first")
        )
        scale.bands = {row["task__domain"]: [row["first"], row["last"] + 1] for row in ranges}
        scale.save(update_fields=["bands"])
    return scale


def begin_scale(taskset: Taskset, name: str, source: str) -> DifficultyScale:
    """Return one whose numbers are estimated task by task.

    The one that was begun, where it was begun alike. Raises ValueError.
    """
    scale, _ = DifficultyScale.objects.get_or_create(
        taskset=taskset, name=name, defaults={"source": source, "ready": False}
    )
    if scale.ready:
        raise ValueError(
            f"{taskset.slug!r} already has a scale {name!r} from {scale.source}: choose "
            "another name"
        )
    if scale.source != source:
        raise ValueError(
            f"the scale {name!r} was started with {scale.source}: continue with that, or "
            "choose another name"
        )
    return scale


def without_number(scale: DifficultyScale, limit: int | None = None) -> list[int]:
    """Return ids of the tasks that have none yet; tasks of several turns are not estimated."""
    tasks = (
        scale.taskset.tasks.filter(follow_ups=[])
        .exclude(pk__in=scale.difficulties.values("task"))
        .order_by("index")
    )
    return list(tasks.values_list("pk", flat=True)[:limit])


def save_values(scale: DifficultyScale, values: Mapping[int, float]) -> None:
    """Write the numbers of these tasks (by id); one that is there already stays."""
    rows = [
        TaskDifficulty(scale=scale, task_id=task, value=value) for task, value in values.items()
    ]
    TaskDifficulty.objects.bulk_create(rows, ignore_conflicts=True)


@transaction.atomic
def finish_scale(scale: DifficultyScale, otherwise: float | None = None) -> int:
    """Give every task its place if all have a value; return how many still have none.

    `otherwise` is the value of tasks that could get none. While some are missing, the scale is not
    ready.
    """
    unplaced = scale.taskset.tasks.exclude(pk__in=scale.difficulties.values("task"))
    if otherwise is not None:
        save_values(scale, dict.fromkeys(unplaced.values_list("pk", flat=True), otherwise))
    if missing := unplaced.count():
        return missing
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE tasksets_taskdifficulty d SET place = placed.place
               FROM (SELECT one.id, row_number() OVER (ORDER BY one.value, task.index) - 1 AS place
                     FROM tasksets_taskdifficulty one
                         JOIN tasksets_task task ON task.id = one.task_id
                     WHERE one.scale_id = %s) placed
               WHERE placed.id = d.id""",
            [scale.pk],
        )
    DifficultyScale.objects.filter(pk=scale.pk).update(ready=True)
    return 0


@transaction.atomic
def _create_from_meta(taskset: Taskset, name: str) -> DifficultyScale:
    if taskset.grows:
        raise ValueError(f"taskset {taskset.slug!r} grows, so its tasks have no order")
    if problem := _describe_missing_numbers(taskset, name):
        raise ValueError(problem)
    scale, is_new = DifficultyScale.objects.get_or_create(
        taskset=taskset, name=name, defaults={"source": META}
    )
    if is_new:
        values = (
            "SELECT id, index, (meta ->> %s)::double precision AS value FROM tasksets_task WHERE"
            " taskset_id = %s"
        )
        try:
            _place(scale, values, [name, taskset.pk])
        except DataError:
            raise ValueError(f"a number {name!r} in the meta of a task is too large") from None
    return scale


def _place(scale: DifficultyScale, values: str, parameters: list) -> None:
    """Write every task's value and its place, lowest first; equal ones by index.

    `values`: SQL of (id, index, value). The planner learns at once how many rows the scale has: if
    it knew only older scales, it would expect none here, and read all of them for each draw.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            f"""INSERT INTO tasksets_taskdifficulty (scale_id, task_id, value, place)
                SELECT %s, id, value, row_number() OVER (ORDER BY value, index) - 1
                    FROM ({values}) valued""",
            [scale.pk, *parameters],
        )
        if cursor.rowcount >= MANY_TASKS:
            cursor.execute("ANALYZE tasksets_taskdifficulty")


def _describe_missing_numbers(taskset: Taskset, name: str) -> str:
    """Return which tasks lack a number of this name in their meta; "" if all have it."""
    having = taskset.tasks.extra(where=["jsonb_typeof(meta -> %s) = 'number'"], params=[name])
    without = taskset.size - having.count()
    if not without:
        return ""
    first = taskset.tasks.exclude(pk__in=having.values("pk")).order_by("index").first()
    assert first is not None
    available = ", ".join(_numbers(taskset)) or "none"
    return (
        f"{without:,} of {taskset.size:,} tasks of {taskset.slug!r} have no number {name!r} "
        f"in their meta, for example task {first.index}; known numbers and scales: {available}"
    )


def _numbers(taskset: Taskset) -> list[str]:
    """Return names of the numbers of the first task's meta, and of the scales."""
    first = taskset.tasks.order_by("index").first()
    meta = first.meta if first and isinstance(first.meta, dict) else {}
    numbers = [
        key
        for key, value in meta.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    return sorted({*numbers, *taskset.scales.values_list("name", flat=True)})[:KNOWN_SHOWN]
