"""Scales of difficulty: one number for each task of a set, and the tasks in their order by it."""

from django.db import DataError, connection, transaction

from apps.tasksets.models import DifficultyScale, Taskset

KNOWN_SHOWN = 20


def scale_of(taskset: Taskset, name: str) -> DifficultyScale:
    """The scale of this name, made of the tasks' meta where there is none yet.

    A taskset never changes, so neither does what was made of it. Raises ValueError with the numbers that there are.
    """
    found = taskset.scales.filter(name=name).first()
    return found or _made_of_meta(taskset, name)


@transaction.atomic
def _made_of_meta(taskset: Taskset, name: str) -> DifficultyScale:
    if taskset.grows:
        raise ValueError(f"taskset {taskset.slug!r} grows, so its tasks have no order")
    if lacking := _lacking(taskset, name):
        raise ValueError(lacking)
    scale, is_new = DifficultyScale.objects.get_or_create(taskset=taskset, name=name, defaults={"source": "the tasks' meta"})
    if is_new:
        values = "SELECT id, index, (meta ->> %s)::double precision AS value FROM tasksets_task WHERE taskset_id = %s"
        try:
            _place(scale, values, [name, taskset.pk])
        except DataError:
            raise ValueError(f"a number {name!r} in the meta of a task is too large") from None
    return scale


def _place(scale: DifficultyScale, values: str, parameters: list) -> None:
    """Write every task's value and its place, lowest first; equal ones by index. `values`: SQL of (id, index, value)."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""INSERT INTO tasksets_taskdifficulty (scale_id, task_id, value, place)
                SELECT %s, id, value, row_number() OVER (ORDER BY value, index) - 1 FROM ({values}) valued""",
            [scale.pk, *parameters],
        )


def _lacking(taskset: Taskset, name: str) -> str:
    """What is wrong with the number of this name; empty where each task has it."""
    having = taskset.tasks.extra(where=["jsonb_typeof(meta -> %s) = 'number'"], params=[name])
    without = taskset.size - having.count()
    if not without:
        return ""
    first = taskset.tasks.exclude(pk__in=having.values("pk")).order_by("index").first()
    known = ", ".join(_numbers(taskset)) or "none"
    return (
        f"{without:,} of {taskset.size:,} tasks of {taskset.slug!r} have no number {name!r} in their meta, such as task "
        f"{first.index}; numbers and scales that there are: {known}"
    )


def _numbers(taskset: Taskset) -> list[str]:
    """Names of the numbers of the first task's meta, and of the scales."""
    first = taskset.tasks.order_by("index").first()
    meta = first.meta if first and isinstance(first.meta, dict) else {}
    numbers = [key for key, value in meta.items() if isinstance(value, int | float) and not isinstance(value, bool)]
    return sorted({*numbers, *taskset.scales.values_list("name", flat=True)})[:KNOWN_SHOWN]
