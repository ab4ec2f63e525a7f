"""One row of a source before it is a task: its fields and place, or why it cannot be read."""

import base64
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, time
from typing import Any, Protocol

from apps.accounts import strict_json

MAX_LINE_BYTES = 1 << 20  # bytes, of a row of another format as JSON
MAX_COLUMNS = 2_000  # of a table
EXCERPT = 120  # characters of a bad line that are kept
PICTURES = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif"}
# a column of a table whose name ends so holds JSON, and is known by what stands before it
AS_JSON = ".json"


class NotReadable(ValueError):
    """Raised for a file of another format, or a damaged one; the message says why."""


@dataclass(frozen=True)
class BadLine:
    """Line that cannot be taken, with the reason.

    `number` counts from 1; `raw`: all its bytes where they are known, so that it can be mended.
    """

    number: int
    reason: str
    excerpt: str
    same_as: int | None = None  # the line that says the same, of a task that is there already
    raw: bytes = field(default=b"", compare=False, repr=False)


@dataclass(frozen=True)
class Record:
    """Fields of one row; `number`: its line (in a table: its row) from 1.

    `raw`: as it was read, for what is said of it. `decodes_columns`: columns of it held JSON.
    """

    number: int
    fields: dict[str, Any]
    raw: bytes
    decodes_columns: bool = False


class Source(Protocol):
    """Source of records; each iteration reads it from its beginning."""

    @property
    def size(self) -> int:
        """Return the size in bytes."""

    @property
    def at(self) -> int:
        """Return how many bytes the newest iteration has read."""

    def __iter__(self) -> Iterator[Record | BadLine]: ...


def decode_record(number: int, raw: bytes) -> Record | BadLine:
    """Decode these bytes as a JSON object; return a BadLine with the reason if they are none."""
    try:
        if len(raw.rstrip(b"\r\n")) > MAX_LINE_BYTES:
            raise strict_json.NotStrictJson(f"longer than {MAX_LINE_BYTES} bytes")
        fields = strict_json.decode_json(raw)
        if isinstance(fields, list) and fields and all(isinstance(item, dict) for item in fields):
            fields = {str(place): item for place, item in enumerate(fields)}
        if not isinstance(fields, dict):
            raise strict_json.NotStrictJson("not a JSON object")
        return Record(number, fields, raw)
    except strict_json.NotStrictJson as error:
        return BadLine(number, str(error), line_excerpt(raw), raw=raw)


def record_of_row(number: int, values: Mapping[str, object]) -> Record | BadLine:
    """Convert a table's row by way of JSON; what JSON cannot express is a BadLine."""
    raw = json.dumps(values, ensure_ascii=False, default=_plain).encode("utf-8", "surrogatepass")
    return record_of_table(number, raw)


def record_of_table(number: int, raw: bytes) -> Record | BadLine:
    """Decode a table's row, and its columns that hold JSON."""
    record = decode_record(number, raw)
    if isinstance(record, BadLine) or not any(name.endswith(AS_JSON) for name in record.fields):
        return record
    try:
        return Record(number, dict(_decoded(record.fields)), raw, decodes_columns=True)
    except strict_json.NotStrictJson as error:
        return BadLine(number, str(error), line_excerpt(raw), raw=raw)


def _decoded(fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if not name.endswith(AS_JSON) or value is None:
            yield name.removesuffix(AS_JSON), value
            continue
        if not isinstance(value, str):
            raise strict_json.NotStrictJson(f"{name}: must be text in JSON format")
        try:
            yield name.removesuffix(AS_JSON), strict_json.decode_json(value)
        except strict_json.NotStrictJson as error:
            raise strict_json.NotStrictJson(f"{name}: {error}") from None


def without_nulls(value: Any) -> Any:
    """Return the value without the null fields of objects in it.

    Tables give each object of a column the fields of all its objects: a function's arguments would
    have the names of every other function's.
    """
    if isinstance(value, dict):
        return {name: without_nulls(field) for name, field in value.items() if field is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def require_distinct(names: list[str]) -> None:
    """Raise NotReadable where two columns of a table have one name, or where there are too many."""
    if len(names) > MAX_COLUMNS:
        raise NotReadable(f"the file has {len(names):,} columns; the limit is {MAX_COLUMNS:,}")
    counts = Counter(name.removesuffix(AS_JSON) for name in names)
    if repeated := sorted(name for name, count in counts.items() if count > 1):
        raise NotReadable(f"several columns are named {', '.join(map(repr, repeated[:5]))}")


def line_excerpt(raw: bytes) -> str:
    """Return the line's beginning as storable text, for the list of bad lines."""
    return raw[: EXCERPT * 4].decode(errors="replace").replace("\0", "\u2400").strip()[:EXCERPT]


def _plain(value: object) -> object:
    """Convert a value for which JSON has no type.

    Bytes of a picture become its address; other bytes become null, so that a reader notices the
    gap.
    """
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return picture_address(value)
    return str(value)


def picture_address(raw: bytes) -> str | None:
    """Return a picture's bytes as a data address, by their first bytes; None for others."""
    kind = next((kind for magic, kind in PICTURES.items() if raw.startswith(magic)), "")
    if raw.startswith(b"RIFF") and raw[8:12] == b"WEBP":
        kind = "webp"
    return f"data:image/{kind};base64,{base64.b64encode(raw).decode()}" if kind else None
