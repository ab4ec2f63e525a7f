"""One row of a source before it is a task: its fields with its place, or the reason why it cannot be read."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, time
from typing import Any, Protocol

from apps.accounts import strict_json

LONGEST_LINE = 1 << 20  # bytes, of a row of another format as JSON
MOST_COLUMNS = 2_000  # of a table
EXCERPT = 120  # characters of a bad line that are kept
AS_JSON = ".json"  # a column of a table whose name ends so holds JSON, and is known by what stands before it


class NotReadable(ValueError):
    """The file is none of its format, or damaged from some row on; the message says why."""


@dataclass(frozen=True)
class BadLine:
    """A line that is no task. `number` counts from 1."""

    number: int
    reason: str
    excerpt: str
    same_as: int | None = None  # the line that says the same, of a task that is there already


@dataclass(frozen=True)
class Record:
    """`number`: the line (of a table: the row) from 1. `raw`: as it was read, for what is said of it."""

    number: int
    fields: dict[str, Any]
    raw: bytes


class Source(Protocol):
    """Iterating it reads it from its beginning, each time."""

    size: int  # bytes
    at: int  # bytes that the newest iteration has read

    def __iter__(self) -> Iterator[Record | BadLine]: ...


def record_of(number: int, raw: bytes) -> Record | BadLine:
    """The JSON object in these bytes."""
    try:
        if len(raw.rstrip(b"\r\n")) > LONGEST_LINE:
            raise strict_json.NotStrictJson(f"longer than {LONGEST_LINE} bytes")
        fields = strict_json.decode(raw)
        if not isinstance(fields, dict):
            raise strict_json.NotStrictJson("not a JSON object")
        return Record(number, fields, raw)
    except strict_json.NotStrictJson as error:
        return BadLine(number, str(error), excerpt_of(raw))


def record_of_row(number: int, values: Mapping[str, object]) -> Record | BadLine:
    """A table's row, by way of JSON: what no JSON can say is refused as it is in JSON lines."""
    raw = json.dumps(values, ensure_ascii=False, default=_plain).encode("utf-8", "surrogatepass")
    record = record_of(number, raw)
    if isinstance(record, BadLine) or not any(name.endswith(AS_JSON) for name in record.fields):
        return record
    try:
        return Record(number, dict(_decoded(record.fields)), raw)
    except strict_json.NotStrictJson as error:
        return BadLine(number, str(error), excerpt_of(raw))


def _decoded(fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if not name.endswith(AS_JSON) or value is None:
            yield name.removesuffix(AS_JSON), value
            continue
        if not isinstance(value, str):
            raise strict_json.NotStrictJson(f"{name}: must be a text that is JSON")
        try:
            yield name.removesuffix(AS_JSON), strict_json.decode(value)
        except strict_json.NotStrictJson as error:
            raise strict_json.NotStrictJson(f"{name}: {error}") from None


def require_distinct(names: list[str]) -> None:
    """Raises NotReadable where two columns of a table have one name, or where there are too many."""
    if len(names) > MOST_COLUMNS:
        raise NotReadable(f"it has {len(names):,} columns; at most {MOST_COLUMNS:,} are read")
    known = Counter(name.removesuffix(AS_JSON) for name in names)
    if twice := sorted(name for name, count in known.items() if count > 1):
        raise NotReadable(f"several columns are named {', '.join(map(repr, twice[:5]))}")


def excerpt_of(raw: bytes) -> str:
    """The line's beginning as storable text, for the list of bad lines."""
    return raw[: EXCERPT * 4].decode(errors="replace").replace("\0", "\u2400").strip()[:EXCERPT]


def _plain(value: object) -> object:
    """What JSON has no word for. Bytes become null: a task whose column they are is then refused for lacking it."""
    if isinstance(value, date | time):
        return value.isoformat()
    return None if isinstance(value, bytes) else str(value)
