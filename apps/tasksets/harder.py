"""Tasks one grade harder than others, drawn by the generator whose template those others fit. Each names its parent."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import ModuleType

from django.db.models import QuerySet

from apps.tasksets.duplicates import Seen
from apps.tasksets.generators import arithmetic, countdown, k12, sort
from apps.tasksets.models import Task, Taskset
from apps.tasksets.rows import TaskRow
from apps.tasksets.storing import Origin, Progress, row_of, store

# Generators with grades: each tells that of a task of its own, `grade_of(row)`, and draws one of the next, `harder(row, draw)`.
GRADED: Mapping[str, ModuleType] = {"arithmetic": arithmetic, "countdown": countdown, "k12": k12, "sort": sort}
TRIES = 100  # draws until one is no task of either set
AT_ONCE = 1_000
UNGRADED = "are of no generator that knows grades"
HIGHEST = "are of the highest grade"
ALL_THERE = "have no harder one that is not there already"


def harder(
    taskset: Taskset, parents: QuerySet[Task], origin: Origin, each: int = 1, progress: Progress = lambda done: None
) -> tuple[Taskset, Counter[str]]:
    """A new set of `each` tasks one grade harder than each of these `parents` of `taskset`; and how many got none, by reason.

    No prompt is one of `taskset` or comes twice. The same sets and `origin.seed` give the same tasks for ever. Raises ValueError
    where no task is made, IntegrityError when the slug is taken.
    """
    left: Counter[str] = Counter()
    try:
        return store(origin, _rows(taskset, parents, origin.seed or 0, each, left), progress=progress), left
    except ValueError:
        if not left:
            raise
        raise ValueError("no task can be made: " + told(left)) from None


def told(left: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} of the tasks {why}" for why, count in left.items())


def generator_of(row: TaskRow) -> ModuleType | None:
    """The graded generator whose task this is, wherever it came from."""
    return next((module for module in GRADED.values() if module.grade_of(row) is not None), None)


def _rows(taskset: Taskset, parents: QuerySet[Task], seed: int, each: int, left: Counter[str]) -> Iterator[TaskRow]:
    seen = _Prompts(taskset)
    for task in parents.order_by("index").iterator(chunk_size=AT_ONCE):
        row = row_of(task)
        module = generator_of(row)
        if module is None:
            left[UNGRADED] += 1
            continue
        for copy in range(each):
            made = _drawn(module, row, random.Random(f"{seed}:{task.digest}:{copy}"), seen)
            if isinstance(made, str):
                left[made] += 1
                break
            meta = {**made.meta, "grade": module.grade_of(made), "parents": [f"{taskset.slug}#{task.index}"]}
            yield replace(made, meta=meta, domain=task.domain, parent=task.pk)


def _drawn(module: ModuleType, row: TaskRow, draw: random.Random, seen: "_Prompts") -> TaskRow | str:
    """A harder task that is new, or why there is none."""
    for _ in range(TRIES):
        made = module.harder(row, draw)
        if made is None:
            return HIGHEST
        if seen.is_new(made):
            return made
    return ALL_THERE


class _Prompts:
    """What a set asks, and what was made since. Inside the transaction that stores the new set."""

    def __init__(self, taskset: Taskset) -> None:
        self.seen, self.made = Seen(), 0
        for first in range(0, taskset.size, AT_ONCE):
            tasks = taskset.tasks.filter(index__gte=first, index__lt=first + AT_ONCE)
            self.seen.first_lines([row_of(task) for task in tasks])

    def is_new(self, row: TaskRow) -> bool:
        self.made += 1
        return self.seen.first_lines([replace(row, line=self.made)]) == [self.made]
