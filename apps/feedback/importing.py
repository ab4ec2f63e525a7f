"""Lessons from a JSON lines file into rows: all of them, or all but those set aside, in one transaction.

One batch is held in memory at a time. Importing a file again changes nothing.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from django.db import connection, transaction

from apps.accounts.models import Membership, Project, User
from apps.feedback.models import LESSONS, Lesson
from apps.feedback.reading import LessonLine, RawBadLine, bad, read
from apps.runs.models import Run
from apps.tasksets.messages import pictures_of
from apps.tasksets.models import Task, Taskset

Placed = tuple[LessonLine, Lesson]
BATCH = 1_000  # lines held in memory and written together
LISTED = 1_000  # bad lines that a refusal names; the rest are counted
# Equal prompts by value: jsonb compares what the messages say, not how they were spelt.
TASKS_ASKING = """
    SELECT asked.n, min(t.id) FROM unnest(%s::jsonb[]) WITH ORDINALITY asked(prompt, n)
    JOIN tasksets_task t ON t.taskset_id = %s AND t.prompt = asked.prompt GROUP BY asked.n"""


class BadLessons(ValueError):
    """The file was refused because of its bad lines; nothing was stored. `lines` are the first of `count`."""

    def __init__(self, kind: str, lines: list[RawBadLine], count: int) -> None:
        super().__init__(f"{count} lines are no {kind}; the first is line {lines[0].number}: {lines[0].reason}")
        self.lines, self.count = lines, count


@dataclass(frozen=True)
class Destination:
    """Whose lessons they become and what they are about. Without a taskset their prompts are no tasks of ours."""

    project: Project
    source: str
    taskset: Taskset | None = None
    run: Run | None = None
    author: User | None = None  # of lines that name none
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Imported:
    """What came of the file's lines."""

    new: int = 0
    known: int = 0
    bad: int = 0


@transaction.atomic
def import_lessons(
    path: Path, kind: str, to: Destination, aside: BinaryIO | None = None, progress: Callable[[int], None] = lambda position: None
) -> Imported:
    """The file's lessons as rows; `progress(bytes read)`. Bad lines go to `aside` as they are, or refuse the file (BadLessons)."""
    outcome, listed = Imported(), []
    with path.open("rb") as stream:
        for batch in _batches(read(stream, kind, to.columns)):
            lines = [line for line in batch if isinstance(line, RawBadLine)]
            lines += _store([line for line in batch if isinstance(line, LessonLine)], LESSONS[kind], to, outcome)
            lines.sort(key=lambda line: line.number)
            outcome.bad += len(lines)
            listed += lines[: LISTED - len(listed)]
            if aside is not None:
                aside.writelines(line.raw.rstrip(b"\r\n") + b"\n" for line in lines)
            progress(stream.tell())
    if listed and aside is None:
        raise BadLessons(kind, listed, outcome.bad)
    return outcome


def _batches(lines: Iterator[LessonLine | RawBadLine]) -> Iterator[list[LessonLine | RawBadLine]]:
    while batch := list(islice(lines, BATCH)):
        yield batch


def _store(lines: list[LessonLine], kind: type[Lesson], to: Destination, outcome: Imported) -> list[RawBadLine]:
    """Write what is new; returns the lines that cannot be stored, with the reason."""
    placed, refused = _placed(lines, kind, to)
    known = kind.objects.known([lesson for _, lesson in placed])
    fresh: list[Lesson] = []
    for line, lesson in placed:
        before = known.setdefault((lesson.author_id, lesson.key), lesson)
        if before is lesson:
            fresh.append(lesson)
        elif lesson.contradicts(before):
            said = getattr(before, kind.VERDICT)
            refused.append(bad(line.number, line.raw, f"the same author has said so with {kind.VERDICT} {said}: one word each"))
        else:
            outcome.known += 1
    kind.objects.bulk_create(fresh)
    outcome.new += len(fresh)
    return refused


def _placed(lines: list[LessonLine], kind: type[Lesson], to: Destination) -> tuple[list[Placed], list[RawBadLine]]:
    """Each line with its unsaved lesson, and the lines whose task or author there is none."""
    authors, tasks = _authors(lines, to), _tasks(lines, to)
    placed, refused = [], []
    for line in lines:
        task = tasks.get(line.number)
        if line.author is not None and line.author not in authors:
            refused.append(bad(line.number, line.raw, f"author: {line.author!r} is no member of {to.project.slug!r}"))
        elif task is None and (to.taskset is not None or line.task is not None):
            refused.append(bad(line.number, line.raw, _no_task(line, to)))
        elif task is None and pictures_of(line.prompt):
            refused.append(bad(line.number, line.raw, "prompt: shows a picture; import its task, and name the taskset"))
        else:
            author = to.author if line.author is None else authors[line.author]
            lesson = kind(
                project=to.project, task=task, run=to.run, author=author, source=to.source,
                prompt=line.prompt if task is None else task.prompt, **line.said,
            )  # fmt: skip
            placed.append((line, lesson.keyed()))
    return placed, refused


def _no_task(line: LessonLine, to: Destination) -> str:
    if to.taskset is None:
        return "task: say which taskset it is of, or give the prompt itself"
    if line.task is not None:
        return f"task: taskset {to.taskset.slug!r} has tasks 0 to {to.taskset.size - 1}"
    return f"prompt: no task of taskset {to.taskset.slug!r} asks this"


def _authors(lines: list[LessonLine], to: Destination) -> dict[str, User]:
    names = {line.author for line in lines if line.author is not None}
    members = Membership.objects.filter(project=to.project, user__username__in=names).select_related("user")
    return {member.user.username: member.user for member in members}


def _tasks(lines: list[LessonLine], to: Destination) -> dict[int, Task]:
    """The task of each line by the line's number, where the taskset has one."""
    if to.taskset is None:
        return {}
    numbered = [line for line in lines if line.task is not None]
    by_index = {task.index: task for task in to.taskset.tasks.filter(index__in={line.task for line in numbered})}
    found = {line.number: by_index[line.task] for line in numbered if line.task in by_index}
    return found | _asking([line for line in lines if line.task is None], to.taskset)


def _asking(lines: list[LessonLine], taskset: Taskset) -> dict[int, Task]:
    """The taskset's tasks that ask what these lines ask, by the line's number."""
    if not lines:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(TASKS_ASKING, [[json.dumps(line.prompt) for line in lines], taskset.pk])
        rows = cursor.fetchall()
    tasks = Task.objects.in_bulk([pk for _, pk in rows])
    return {lines[n - 1].number: tasks[pk] for n, pk in rows}
