"""Make tasks that are one grade harder than others, with the generator that made the others.

Each new task names its parent.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import ModuleType

from django.db.models import QuerySet

from apps.tasksets.duplicates import SeenContents
from apps.tasksets.generators import arithmetic, countdown, k12, sort
from apps.tasksets.models import Task, Taskset
from apps.tasksets.rows import TaskRow
from apps.tasksets.storing import Origin, Progress, build_row, store_taskset

# Generators with grades: `grade_of(row)` gives the grade of a task that is theirs, and
# `harder(row, draw)` draws a task of the next grade.
GRADED: Mapping[str, ModuleType] = {
    "arithmetic": arithmetic,
    "countdown": countdown,
    "k12": k12,
    "sort": sort,
}
TRIES = 100  # draws for a task that neither set has, before giving up
AT_ONCE = 1_000
UNGRADED = "are not from a generator with grades"
IS_HARDEST = "are already of the highest grade"
ALL_THERE = "have no harder version that is not already in the taskset"


def make_harder_taskset(
    taskset: Taskset,
    parents: QuerySet[Task],
    origin: Origin,
    per_task: int = 1,
    progress: Progress = lambda task_count: None,
) -> tuple[Taskset, Counter[str]]:
    """Return a new set of `per_task` tasks one grade harder than each of these `parents`.

    Also return how many parents got none, by reason.

    No prompt is one of `taskset` or comes twice. The same sets and `origin.seed` always give the
    same tasks. Raises ValueError where no task is made, IntegrityError when the slug is taken.
    """
    skipped: Counter[str] = Counter()
    try:
        return (
            store_taskset(
                origin,
                _rows(taskset, parents, origin.seed or 0, per_task, skipped),
                progress=progress,
            ),
            skipped,
        )
    except ValueError:
        if not skipped:
            raise
        raise ValueError("no task can be made: " + describe_ungraded(skipped)) from None


def describe_ungraded(skipped: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} of the tasks {why}" for why, count in skipped.items())


def find_graded_generator(row: TaskRow) -> ModuleType | None:
    """Return the graded generator whose task this is, wherever it came from."""
    return next((module for module in GRADED.values() if module.read_grade(row) is not None), None)


def _rows(
    taskset: Taskset, parents: QuerySet[Task], seed: int, copies: int, skipped: Counter[str]
) -> Iterator[TaskRow]:
    prompts = _Prompts(taskset)
    for task in parents.order_by("index").iterator(chunk_size=AT_ONCE):
        row = build_row(task)
        module = find_graded_generator(row)
        if module is None:
            skipped[UNGRADED] += 1
            continue
        for copy in range(copies):
            result = _draw_harder(
                module, row, random.Random(f"{seed}:{task.digest}:{copy}"), prompts
            )
            if isinstance(result, str):
                skipped[result] += 1
                break
            meta = {
                **result.meta,
                "grade": module.read_grade(result),
                "parents": [f"{taskset.slug}#{task.index}"],
            }
            yield replace(result, meta=meta, domain=task.domain, parent=task.pk)


def _draw_harder(
    module: ModuleType, row: TaskRow, draw: random.Random, prompts: "_Prompts"
) -> TaskRow | str:
    """Return a harder task that is new, or why there is none."""
    for _ in range(TRIES):
        task = module.harder(row, draw)
        if task is None:
            return IS_HARDEST
        if prompts.is_new(task):
            return task
    return ALL_THERE


class _Prompts:
    """Prompts of a set, and those made since.

    It is used inside the transaction that stores the new set.
    """

    def __init__(self, taskset: Taskset) -> None:
        self.seen = SeenContents()
        self.made = 0
        for first in range(0, taskset.size, AT_ONCE):
            tasks = taskset.tasks.filter(index__gte=first, index__lt=first + AT_ONCE)
            self.seen.first_lines([build_row(task) for task in tasks])

    def is_new(self, row: TaskRow) -> bool:
        self.made += 1
        return self.seen.first_lines([replace(row, line=self.made)]) == [self.made]
