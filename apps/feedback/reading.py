"""Reading lessons from JSON lines: streamed, strict, and never stopping at a bad line.

Columns: `prompt` (a text, or chat messages) or `task` (a task's index in the named taskset); `author` (a username, optional); and
    demonstrations   answer
    preferences      chosen, rejected, margin (a number, optional)
    thumbs           completion, label (true or false)
An answer is a text, or a list of one assistant message, as TRL's data sets have it. What the data sets of the Hub call
otherwise is read as well: `apps.feedback.layouts`.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from apps.accounts import strict_json
from apps.feedback import parquet
from apps.feedback.layouts import NotThisLayout, ours_of
from apps.tasksets.reading import NotATask, prompt_of
from apps.tasksets.sources.jsonl import BYTE_ORDER_MARK, lines_of
from apps.tasksets.sources.records import LONGEST_LINE, BadLine, excerpt_of

TEXTS = {"demonstrations": ("answer",), "preferences": ("chosen", "rejected"), "thumbs": ("completion",)}


class NotALesson(ValueError):
    """The line is no lesson; the message says what is wrong and what is right."""


@dataclass(frozen=True)
class LessonLine:
    """A line that can be read. `prompt` is None where it names a task by its index; `said` are the lesson's own fields."""

    number: int
    raw: bytes
    prompt: list[dict[str, str]] | None
    task: int | None
    author: str | None
    said: dict[str, Any]


@dataclass(frozen=True)
class RawBadLine(BadLine):
    """A bad line with all its bytes (a line beyond the longest is cut), so that it can be set aside and mended."""

    raw: bytes = b""


def read(stream: BinaryIO, kind: str, columns: Mapping[str, str]) -> Iterator[LessonLine | RawBadLine]:
    """Lessons and bad lines in the order of the file, JSON lines or Parquet; blank lines are skipped.

    `columns`: our name → the file's. Raises NotParquet for a damaged file of that kind.
    """
    lines = parquet.lines_apart(stream) if parquet.is_parquet(stream) else lines_of(stream)
    for number, raw in enumerate(lines, start=1):
        if number == 1:
            raw = raw.removeprefix(BYTE_ORDER_MARK)
        if not raw.strip():
            continue
        try:
            yield _lesson(number, raw, kind, columns)
        except (NotALesson, NotATask, NotThisLayout, strict_json.NotStrictJson) as error:
            yield bad(number, raw, str(error))


def bad(number: int, raw: bytes, reason: str) -> RawBadLine:
    return RawBadLine(number, reason, excerpt_of(raw), raw=raw)


def _lesson(number: int, raw: bytes, kind: str, columns: Mapping[str, str]) -> LessonLine:
    if len(raw.rstrip(b"\r\n")) > LONGEST_LINE:
        raise NotALesson(f"longer than {LONGEST_LINE} bytes")
    row = strict_json.decode(raw)
    if not isinstance(row, dict):
        raise NotALesson("not a JSON object")
    row = {**row, **{ours: row[theirs] for ours, theirs in columns.items() if theirs in row}}
    layout, row = ours_of(row, kind)
    if layout:  # other people's columns of these names say something else
        row = {name: value for name, value in row.items() if name not in ("task", "author")}
    task = row.get("task")
    if task is not None and (type(task) is not int or task < 0):
        raise NotALesson("task: must be the index of a task, a whole number from 0")
    prompt = prompt_of(row, "prompt", {}) if task is None or "prompt" in row else None
    said = {name: _text(row, name) for name in TEXTS[kind]} | _verdict(row, kind)
    return LessonLine(number, raw, prompt, task, _author(row), said)


def _text(row: dict[str, Any], column: str) -> str:
    if column not in row:
        raise NotALesson(f"no column {column!r}; there are {', '.join(sorted(row)[:10]) or 'none'}")
    text = row[column]
    if isinstance(text, list) and len(text) == 1 and isinstance(text[0], dict) and text[0].get("role") == "assistant":
        text = text[0].get("content")
    if not isinstance(text, str) or not text:
        raise NotALesson(f"{column}: must be a text that says something, or a list of one assistant message")
    return text


def _verdict(row: dict[str, Any], kind: str) -> dict[str, Any]:
    if kind == "preferences":
        margin = row.get("margin")
        if margin is not None and (type(margin) not in (int, float) or not math.isfinite(margin) or margin < 0):
            raise NotALesson("margin: must be a number from 0, or left out")
        if _text(row, "chosen") == _text(row, "rejected"):
            raise NotALesson("chosen and rejected are the same text")
        return {"margin": None if margin is None else float(margin)}
    if kind == "thumbs":
        if type(row.get("label")) is not bool:
            raise NotALesson("label: must be true (good) or false (bad)")
        return {"is_up": row["label"]}
    return {}


def _author(row: dict[str, Any]) -> str | None:
    author = row.get("author")
    if author is not None and not (isinstance(author, str) and author):
        raise NotALesson("author: must be a username, or left out")
    return author
