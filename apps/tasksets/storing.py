"""Putting tasks into the database: all of them, or all but the quarantined, in one transaction."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from django.core.exceptions import ValidationError
from django.core.validators import validate_slug
from django.db import connection, transaction

from apps.accounts.models import Project, User
from apps.tasksets.duplicates import DROP, KEEP, REFUSE, SeenContents
from apps.tasksets.messages import content_text, list_pictures
from apps.tasksets.models import Picture, QuarantinedLine, Task, TaskParent, Taskset
from apps.tasksets.rows import TaskRow
from apps.tasksets.sources.records import EXCERPT, BadLine
from apps.tasksets.versions import MAX_SLUG_LENGTH, count_changes, find_newest_version

BATCH = 1_000  # rows held in memory and written together
BATCH_BYTES = 32 << 20  # of their pictures: a batch that holds more is written before it is full
COUNTED = [
    "size",
    "quarantined",
    "duplicates",
    "left_out",
    "digest",
    "shows_pictures",
    "added",
    "removed",
]
MAX_TITLE_LENGTH = 200  # characters
LISTED = 1_000  # bad lines that a refusal names; the rest are counted

Progress = Callable[[int], None]
# Of rows, by line, why each is left out that is; the others are kept.
WhyNot = Callable[[Sequence[TaskRow]], Mapping[int, str]]


class BadLines(ValueError):
    """Raised for a file with bad lines; nothing was stored.

    `lines` are the first of `count`.
    """

    def __init__(self, lines: list[BadLine], count: int) -> None:
        super().__init__(
            f"{count} lines cannot become tasks; the first is line {lines[0].number}:"
            f" {lines[0].reason}"
        )
        self.lines = lines
        self.count = count


@dataclass(frozen=True)
class Origin:
    """Origin of a taskset: its project, name and source. `seed` is None for a set from a file.

    `version_of` is any version of the set whose next version this is; None begins a new set. Raises
    ValueError for a name or a title that pages cannot show.
    """

    project: Project
    slug: str
    title: str
    source: str
    seed: int | None = None
    by: User | None = None
    version_of: Taskset | None = None

    def __post_init__(self) -> None:
        require_slug(self.slug)
        if len(self.title) > MAX_TITLE_LENGTH:
            raise ValueError(f"the title has more than {MAX_TITLE_LENGTH} characters")


def require_slug(slug: str) -> None:
    """Raise ValueError for what cannot be the slug of a taskset, which is part of addresses."""
    try:
        validate_slug(slug)
    except ValidationError:
        raise ValueError(f"{slug!r} is not a valid slug: use letters, digits, - and _") from None
    if len(slug) > MAX_SLUG_LENGTH:
        raise ValueError(f"a slug must have at most {MAX_SLUG_LENGTH} characters")


class RowFilter:
    """Filter that decides which rows become tasks, and which lines are set aside or refused."""

    def __init__(self, quarantine: bool, duplicates: str, why_not: WhyNot | None = None) -> None:
        self.quarantine = quarantine
        self.duplicates = duplicates
        self.why_not = why_not
        self.seen = SeenContents() if duplicates != KEEP else None
        self.listed: list[BadLine] = []
        self.refused = self.bad = self.same = self.left_out = 0

    def sift(self, batch: list[TaskRow | BadLine]) -> tuple[list[TaskRow], list[BadLine]]:
        """Return the tasks to store, and the lines to set aside."""
        rows = [row for row in batch if isinstance(row, TaskRow)]
        bad = [row for row in batch if isinstance(row, BadLine)]
        firsts = self.seen.first_lines(rows) if self.seen else [row.line for row in rows]
        tasks = [row for row, first in zip(rows, firsts, strict=True) if row.line == first]
        repeated = [
            _repeated(row, first)
            for row, first in zip(rows, firsts, strict=True)
            if row.line != first
        ]
        aside = (bad if self.quarantine else []) + (repeated if self.duplicates == DROP else [])
        self.bad += len(bad)
        self.same += len(repeated)
        self._refuse(
            ([] if self.quarantine else bad) + (repeated if self.duplicates == REFUSE else [])
        )
        reasons = self.why_not(tasks) if self.why_not and tasks else {}
        self.left_out += len(reasons)
        aside += [_excluded_line(row, reasons[row.line]) for row in tasks if row.line in reasons]
        return [row for row in tasks if row.line not in reasons], aside

    def _refuse(self, lines: list[BadLine]) -> None:
        self.refused += len(lines)
        listed = sorted(lines, key=lambda line: line.number)[: LISTED - len(self.listed)]
        self.listed += [replace(line, raw=b"") for line in listed]


@transaction.atomic
def store_taskset(
    origin: Origin,
    rows: Iterable[TaskRow | BadLine],
    quarantine: bool = False,
    progress: Progress = lambda row_count: None,
    duplicates: str = KEEP,
    why_not: WhyNot | None = None,
) -> Taskset:
    """Return a new taskset of these rows; `progress(rows read)` after each batch.

    Bad lines are kept beside the set when `quarantine`, otherwise they refuse it (BadLines).
    `duplicates`, of tasks that are there already: "keep", "drop" (kept beside the set like bad
    lines, and counted), or "refuse" (BadLines, whatever `quarantine` says). `why_not` looks at each
    batch of good tasks: what it leaves out is kept beside the set, and counted, too. Raises
    ValueError when nothing is left, or nothing has changed since the version before; IntegrityError
    when the slug is taken.
    """
    _wait_for_rows()
    before = find_newest_version(origin.version_of, origin.project) if origin.version_of else None
    taskset = Taskset.objects.create(
        project=origin.project,
        slug=origin.slug,
        title=origin.title,
        source=origin.source,
        seed=origin.seed,
        created_by=origin.by,
        first=before and (before.first or before),
        version=before.version + 1 if before else 1,
    )
    digest = hashlib.sha256()
    sieve = RowFilter(quarantine, duplicates, why_not)
    for read, batch in _batches(rows):
        tasks, aside = sieve.sift(batch)
        QuarantinedLine.objects.bulk_create(_quarantined(taskset, line) for line in aside)
        taskset.size = _write(taskset, tasks, digest)
        taskset.shows_pictures |= any(list_pictures(task.prompt) for task in tasks)
        progress(read)
    if sieve.refused:
        raise BadLines(sieve.listed, sieve.refused)
    if not taskset.size:
        raise ValueError("there is no task in it")
    taskset.quarantined, taskset.digest = sieve.bad, digest.hexdigest()
    taskset.duplicates = sieve.same
    taskset.left_out = sieve.left_out
    if before:
        taskset.added, taskset.removed = count_changes(before, taskset)
    taskset.save(update_fields=COUNTED)
    return taskset


def _wait_for_rows() -> None:
    """Let this transaction wait for rows as long as they take.

    A row may be downloaded, read by a plugin, or need minutes of programs for its tests.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")


def _repeated(row: TaskRow, first: int) -> BadLine:
    return BadLine(row.line, f"duplicate of line {first}", _excerpt(row), first)


def _excluded_line(row: TaskRow, why: str) -> BadLine:
    return BadLine(row.line, why, _excerpt(row))


def _excerpt(row: TaskRow) -> str:
    return content_text(row.prompt[-1]["content"]).strip()[:EXCERPT]


def _batches(rows: Iterable[TaskRow | BadLine]) -> Iterator[tuple[int, list[TaskRow | BadLine]]]:
    """Yield rows read so far, and the newest of them."""
    batch = []
    read = 0
    picture_bytes = 0
    for row in rows:
        batch.append(row)
        read += 1
        picture_bytes += (
            sum(len(picture.png) for picture in row.pictures) if isinstance(row, TaskRow) else 0
        )
        if len(batch) == BATCH or picture_bytes > BATCH_BYTES:
            yield read, batch
            batch = []
            picture_bytes = 0
    if batch:
        yield read, batch


def _write(taskset: Taskset, rows: list[TaskRow], digest: "hashlib._Hash") -> int:
    """Append the rows behind those already there; returns how many there are now."""
    tasks = [build_task(taskset, index, row) for index, row in enumerate(rows, start=taskset.size)]
    for task in tasks:
        digest.update(task.digest.encode())
    Picture.objects.keep(taskset.project, (picture for row in rows for picture in row.pictures))
    Task.objects.bulk_create(tasks)
    derived = [(task, row.parent) for task, row in zip(tasks, rows, strict=True) if row.parent]
    TaskParent.objects.bulk_create(
        TaskParent(task=task, parent_id=parent) for task, parent in derived
    )
    return taskset.size + len(tasks)


def build_task(taskset: Taskset, index: int, row: TaskRow) -> Task:
    """Return the row as a task at this place of the set, not saved."""
    # Tasks are spelt as they were before there were follow-ups and domains: the same set has the
    # same digest for ever. Pictures are in the prompt, by the digests of their bytes.
    later = {"follow_ups": row.follow_ups, "domain": row.domain}
    fields = {"prompt": row.prompt, "answer": row.answer, "meta": row.meta} | {
        name: value for name, value in later.items() if value
    }
    canonical = json.dumps(fields, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    task_digest = hashlib.sha256(canonical.encode()).hexdigest()
    return Task(
        taskset=taskset,
        index=index,
        prompt=row.prompt,
        follow_ups=row.follow_ups,
        answer=row.answer,
        meta=row.meta,
        domain=row.domain,
        digest=task_digest,
    )


def build_row(task: Task) -> TaskRow:
    """Return the task as a row, the form before it is stored."""
    return TaskRow(task.prompt, task.answer, task.meta, task.follow_ups, domain=task.domain)


def _quarantined(taskset: Taskset, line: BadLine) -> QuarantinedLine:
    return QuarantinedLine(
        taskset=taskset,
        line=line.number,
        reason=line.reason[:300],
        excerpt=line.excerpt,
        same_as=line.same_as,
    )
