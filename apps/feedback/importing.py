"""Store the lessons of a file in one transaction.

All lines are imported, or all but those set aside. One batch is held in memory at a time. Importing
a file again changes nothing.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from django.db import connection, transaction

from apps.accounts.models import Membership, Project, User
from apps.feedback.models import LESSONS, Lesson
from apps.feedback.reading import LessonColumns, LessonLine, LessonRows, bad
from apps.runs.models import Run
from apps.tasksets.messages import as_texts, list_pictures
from apps.tasksets.models import Task, Taskset
from apps.tasksets.sources.apart import records_of_file
from apps.tasksets.sources.records import BadLine

Placed = tuple[LessonLine, Lesson]
BATCH = 1_000  # lines held in memory and written together
LOCK = 0x6C65_7373  # key of the advisory lock of a project's imports
LISTED = 1_000  # bad lines that an error lists; the rest are counted
# Prompts are compared by value: jsonb ignores the spelling of the messages.
TASKS_ASKING = """
    SELECT prompts.n, min(t.id) FROM unnest(%s::jsonb[]) WITH ORDINALITY prompts(prompt, n)
    JOIN tasksets_task t ON t.taskset_id = %s AND t.prompt = prompts.prompt GROUP BY prompts.n"""


class BadLessons(ValueError):
    """Raised for a file with bad lines, of which nothing was stored.

    `lines` are the first of `count`.
    """

    def __init__(self, kind: str, lines: list[BadLine], count: int) -> None:
        super().__init__(
            f"{count} invalid {kind} lines; the first is line {lines[0].number}: {lines[0].reason}"
        )
        self.lines = lines
        self.count = count


@dataclass(frozen=True)
class Destination:
    """The target of an import: project, source, taskset, run and author.

    Without a taskset the prompts are linked to no tasks.
    """

    project: Project
    source: str
    taskset: Taskset | None = None
    run: Run | None = None
    author: User | None = None  # author of lines that name none


@dataclass(frozen=True)
class LessonFile:
    """A file of lessons and how to read it: `format` and `split` as sources take them."""

    path: Path
    kind: str
    columns: LessonColumns = LessonColumns()  # noqa: RUF009 - frozen
    format: str = "auto"
    split: str = ""

    def rows(self) -> LessonRows:
        """Return the lessons of the file.

        Raises NotReadable, also while the rows are read.
        """
        return LessonRows(
            records_of_file(self.path, self.format, self.split), self.kind, self.columns
        )


@dataclass
class Imported:
    """The result of an import.

    `dropped` maps each field that is not taken to the number of lines in which it has a value.
    """

    new: int = 0
    existing: int = 0
    bad: int = 0
    layout: str = ""
    dropped: Counter[str] = field(default_factory=Counter)
    raters: set[str] = field(default_factory=set)  # names of authors who are no members

    @property
    def rater_names(self) -> str:
        return ", ".join(sorted(self.raters))


@transaction.atomic
def import_lessons(
    file: LessonFile,
    to: Destination,
    aside: BinaryIO | None = None,
    progress: Callable[[int], None] = lambda rows: None,
) -> Imported:
    """Store the file's lessons.

    Bad rows are written to `aside` unchanged; without it, they refuse the file. `progress` is
    called with the number of rows read. Another import into the project waits for this one, so
    that a file that is sent twice at once is stored once. Raises BadLessons, NotReadable.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [LOCK, to.project.pk % 2**31])
    rows = file.rows()
    outcome = Imported(layout=rows.layout.title if rows.layout else "")
    listed: list[BadLine] = []
    kind = LESSONS[file.kind]
    for batch in _batches(iter(rows)):
        lines = [line for line in batch if isinstance(line, BadLine)]
        lines += _store([line for line in batch if isinstance(line, LessonLine)], kind, to, outcome)
        # A row may hold several lessons.
        lines = [line for _, line in sorted({line.number: line for line in lines}.items())]
        outcome.bad += len(lines)
        listed += [replace(line, raw=b"") for line in lines[: LISTED - len(listed)]]
        if aside is not None:
            aside.writelines(
                (line.raw or line.excerpt.encode()).rstrip(b"\r\n") + b"\n" for line in lines
            )
        progress(batch[-1].number)
    outcome.dropped = rows.dropped
    if listed and aside is None:
        raise BadLessons(file.kind, listed, outcome.bad)
    return outcome


def _batches(lines: Iterator[LessonLine | BadLine]) -> Iterator[list[LessonLine | BadLine]]:
    while batch := list(islice(lines, BATCH)):
        yield batch


def _store(
    lines: list[LessonLine], kind: type[Lesson], to: Destination, outcome: Imported
) -> list[BadLine]:
    """Write new lessons; return the lines that cannot be stored, with the reason."""
    placed, refused = _place_in_tasks(lines, kind, to, outcome)
    existing = kind.objects.existing([lesson for _, lesson in placed])
    fresh: list[Lesson] = []
    for line, lesson in placed:
        before = existing.setdefault((lesson.author_id, lesson.key), lesson)
        if before is lesson:
            fresh.append(lesson)
        elif lesson.contradicts(before):
            assert kind.VERDICT is not None  # else nothing contradicts
            verdict = getattr(before, kind.VERDICT)
            refused.append(
                bad(
                    line,
                    f"contradicts another line of the same author with {kind.VERDICT} {verdict}",
                )
            )
        else:
            outcome.existing += 1
    kind.objects.bulk_create(fresh)
    outcome.new += len(fresh)
    return refused


def _place_in_tasks(
    lines: list[LessonLine], kind: type[Lesson], to: Destination, outcome: Imported
) -> tuple[list[Placed], list[BadLine]]:
    """Return each line with its unsaved lesson, and the lines whose task does not exist."""
    authors = _authors(lines, to, outcome)
    tasks = _tasks(lines, to)
    placed = []
    refused = []
    for line, task in zip(lines, tasks, strict=True):
        author = to.author if line.author is None else authors[line.author]
        if isinstance(author, ValueError):
            refused.append(bad(line, f"author: {author}"))
        elif task is None and line.pictured is not None:
            refused.append(bad(line, _no_pictures(line.pictured[0])))
        elif task is None and (to.taskset is not None or line.task is not None):
            refused.append(bad(line, _no_task(line, to)))
        elif task is None and list_pictures(line.prompt or ()):
            refused.append(
                bad(line, "prompt: contains a picture. Import its task, then name the taskset")
            )
        else:
            lesson = kind(
                project=to.project,
                task=task,
                run=to.run,
                author=author,
                source=to.source,
                prompt=line.prompt if task is None else task.prompt,
                **line.fields,
            )
            placed.append((line, lesson.keyed()))
    return placed, refused


def _no_pictures(slug: str) -> str:
    return (
        "prompt: has [picture 1] in place of a picture. Import the tasks of taskset "
        f"{slug!r} under this name, then name the taskset"
    )


def _no_task(line: LessonLine, to: Destination) -> str:
    if to.taskset is None:
        return "task: name the taskset, or give the prompt"
    if line.task is not None:
        return f"task: taskset {to.taskset.slug!r} has tasks 0 to {to.taskset.size - 1}"
    return f"prompt: no task of taskset {to.taskset.slug!r} has this prompt"


def _authors(
    lines: list[LessonLine], to: Destination, outcome: Imported
) -> dict[str, User | ValueError]:
    """Return the authors by the names in the lines.

    They are members, imported raters for authors who are no members, or the reason why nobody can
    have the name.
    """
    simulated_by_author = {
        line.author: line.is_simulated for line in lines if line.author is not None
    }
    members = Membership.objects.filter(
        project=to.project, user__username__in=simulated_by_author
    ).select_related("user")
    authors: dict[str, User | ValueError] = {
        member.user.username: member.user
        for member in members
        if member.user.is_simulated or not simulated_by_author[member.user.username]
    }
    fitting = {}
    for name in simulated_by_author.keys() - authors.keys():
        try:
            to.project.require_rater_name(name)
        except ValueError as error:
            authors[name] = error
        else:
            fitting[name] = simulated_by_author[name]
    raters = to.project.imported_raters_named(fitting) if fitting else {}
    outcome.raters |= raters.keys()
    return authors | raters


def _tasks(lines: list[LessonLine], to: Destination) -> list[Task | None]:
    """Return the task of each line; None if the taskset has none."""
    if to.taskset is None:
        return [None] * len(lines)
    numbers = {line.task for line in lines if line.task is not None}
    numbers |= {line.pictured[1] for line in lines if line.pictured and line.pictured[1] >= 0}
    by_index = {task.index: task for task in to.taskset.tasks.filter(index__in=numbers)}
    asking = _asking([line for line in lines if line.task is None], to.taskset)
    tasks = [by_index.get(line.task) if line.task is not None else next(asking) for line in lines]
    return [
        task or _pictured_task(line, to.taskset, by_index)
        for line, task in zip(lines, tasks, strict=True)
    ]


def _pictured_task(line: LessonLine, taskset: Taskset, by_index: Mapping[int, Task]) -> Task | None:
    """Return the task that an exported line names, if its prompt says the same beside pictures.

    Many tasks may have the same words, so the number decides, in the taskset of the same name.
    """
    if line.pictured is None or line.pictured[0] != taskset.slug:
        return None
    task = by_index.get(line.pictured[1])
    return task if task is not None and as_texts(task.prompt) == line.prompt else None


def _asking(lines: list[LessonLine], taskset: Taskset) -> Iterator[Task | None]:
    """Yield for each line the taskset's task with the same prompt."""
    if not lines:
        return
    with connection.cursor() as cursor:
        cursor.execute(TASKS_ASKING, [[json.dumps(line.prompt) for line in lines], taskset.pk])
        rows = dict(cursor.fetchall())
    tasks = Task.objects.in_bulk(rows.values())
    for place in range(1, len(lines) + 1):
        yield tasks.get(rows.get(place))
