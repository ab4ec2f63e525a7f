"""Read lessons from rows of any source: streamed, strict, and without stopping at a bad row.

Our columns: `prompt` (a text, or chat messages) or `task` (a task's index in the named taskset);
`author` (optional); and
    demonstrations   answer
    preferences      chosen, rejected, margin (a number, optional)
    thumbs           completion, label (true or false)
An answer is a text, or one message of the assistant's. Rows of other layouts
(`apps.tasksets.layouts`) are converted to these columns.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

from apps.tasksets.layouts import (
    BY_NAME,
    LOOKED_AT,
    Layout,
    NotThisLayout,
    RowReading,
    count_dropped,
    read_row,
    recognised,
)
from apps.tasksets.layouts.conversations import read_answer
from apps.tasksets.layouts.gathering import gathered
from apps.tasksets.layouts.own import EXPORTS
from apps.tasksets.messages import PICTURE_MARK, content_text
from apps.tasksets.reading import NotATask, read_prompt
from apps.tasksets.sources.records import BadLine, Record, line_excerpt

TEXTS = {
    "demonstrations": ("answer",),
    "preferences": ("chosen", "rejected"),
    "thumbs": ("completion",),
}
MORE = {"preferences": ("margin",), "thumbs": ("label",)}


class NotALesson(ValueError):
    """Raised for a row that is no lesson; the message says what is wrong and what is right."""


@dataclass(frozen=True)
class LessonLine:
    """A lesson that can be read.

    `prompt` is None if it names a task by its index; `fields` are the lesson's own fields. A row of
    some layouts holds several lessons, all with the row's number.
    """

    number: int
    raw: bytes
    prompt: list[dict[str, Any]] | None
    task: int | None
    author: str | None
    fields: dict[str, Any]
    is_simulated: bool = False  # the author is a program
    pictured: tuple[str, int] | None = None  # slug and index of a task whose pictures are marks


@dataclass(frozen=True)
class LessonColumns:
    """How to read rows.

    `names` maps our columns to the file's. `layout` is a name, or "" to recognise it from the first
    rows. `min_rating` is the rating from which an answer is good, if the file has ratings on a
    scale of its own.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    layout: str = ""
    min_rating: float | None = None

    def __post_init__(self) -> None:
        if self.min_rating is not None and not math.isfinite(self.min_rating):
            raise ValueError(f"the lowest rating must be a number, not {self.min_rating}")


class LessonRows:
    """The lessons and bad rows of a source, in its order.

    `layout` is None if the rows have no known layout. `dropped` maps each field that is not taken
    to the number of rows, read so far, in which it has a value.
    """

    def __init__(
        self, records: Iterable[Record | BadLine], kind: str, columns: LessonColumns
    ) -> None:
        self.kind = kind
        self.columns = columns
        self.dropped: Counter[str] = Counter()
        source = iter(records)
        first = list(islice(source, LOOKED_AT))
        rows = [self._renamed(record.fields) for record in first if isinstance(record, Record)]
        self.layout: Layout | None = (
            BY_NAME[columns.layout] if columns.layout else recognised(rows, kind)
        )
        self._records: Iterator[Record | BadLine] = chain(first, source)
        if self.layout is not None:
            self._records = gathered(self._records, self.layout)

    def __iter__(self) -> Iterator[LessonLine | BadLine]:
        for record in self._records:
            if isinstance(record, BadLine):
                yield record
                continue
            try:
                yield from self._lessons(record)
            except (NotALesson, NotATask, NotThisLayout) as error:
                yield bad(record, str(error))

    def _renamed(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the row under our names of its columns."""
        renamed = {column for column in self.columns.names.values() if column in fields}
        mapped = {
            name: fields[column] for name, column in self.columns.names.items() if column in fields
        }
        return {name: value for name, value in fields.items() if name not in renamed} | mapped

    def _lessons(self, record: Record) -> list[LessonLine]:
        taking = RowReading(self.columns.min_rating)
        rows = read_row(self.layout, self._renamed(record.fields), self.kind, taking)
        lessons = [_lesson(record, row, self.kind, taking) for row in rows]
        if self.layout in EXPORTS:
            lessons = [_with_place(lesson, record.fields) for lesson in lessons]
        count_dropped(self.dropped, taking.dropped)
        return lessons


def bad(record: Record | LessonLine, reason: str) -> BadLine:
    return BadLine(record.number, reason, line_excerpt(record.raw), raw=record.raw)


def _lesson(record: Record, row: dict[str, Any], kind: str, taking: RowReading) -> LessonLine:
    task = row.get("task")
    if task is not None and (type(task) is not int or task < 0):
        raise NotALesson("task: must be the index of a task, a whole number from 0 up")
    if missing := [name for name in TEXTS[kind] if name not in row]:
        columns = ", ".join(sorted(record.fields)[:10]) or "none"
        raise NotALesson(f"no column {missing[0]!r}; columns: {columns}")
    prompt = (
        read_prompt(row, "prompt", {}) if task is None or row.get("prompt") is not None else None
    )
    fields = {name: _text(row, name, taking) for name in TEXTS[kind]} | _verdict(row, kind, taking)
    is_simulated = row.get("is_simulated") is True
    return LessonLine(record.number, record.raw, prompt, task, _author(row), fields, is_simulated)


def _with_place(lesson: LessonLine, fields: dict[str, Any]) -> LessonLine:
    """Return the lesson with its task's place, if the export has marks in place of its pictures."""
    users = [message for message in lesson.prompt or () if message["role"] == "user"]
    if not any(PICTURE_MARK.search(content_text(message["content"])) for message in users):
        return lesson
    task = fields.get("task")
    return replace(lesson, pictured=(str(fields.get("taskset")), task if type(task) is int else -1))


def _text(row: dict[str, Any], column: str, taking: RowReading) -> str:
    value = row[column]
    is_answer = isinstance(value, str | dict | list) and value
    text = read_answer(value, column, taking) if is_answer else value
    if not isinstance(text, str) or not text:
        raise NotALesson(f"{column}: must be a non-empty text, or one message of the assistant")
    return text


def _verdict(row: dict[str, Any], kind: str, taking: RowReading) -> dict[str, Any]:
    if kind == "preferences":
        margin = row.get("margin")
        if margin is not None and (
            type(margin) not in (int, float) or not math.isfinite(margin) or margin < 0
        ):
            raise NotALesson("margin: must be a number from 0 up, or omitted")
        if _text(row, "chosen", taking) == _text(row, "rejected", taking):
            raise NotALesson("chosen and rejected are the same text")
        return {"margin": None if margin is None else float(margin)}
    if kind == "thumbs":
        if type(row.get("label")) is not bool:
            raise NotALesson("label: must be true (good) or false (bad)")
        return {"is_up": row["label"]}
    return {}


def _author(row: dict[str, Any]) -> str | None:
    author = row.get("author")
    if author is not None and not (isinstance(author, str) and author.strip()):
        raise NotALesson("author: must be a name, or omitted")
    return author
