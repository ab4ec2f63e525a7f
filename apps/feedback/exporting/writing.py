"""Exports as files: JSON lines are streamed, Parquet goes through a temporary file."""

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO

from apps.accounts.downloads import CHUNK, in_chunks
from apps.feedback import parquet
from apps.feedback.exporting.rows import Row, RowSelection, export_rows
from apps.feedback.exporting.schemas import export_schema

IN_MEMORY = 8 << 20  # bytes of a Parquet file kept in memory


@dataclass(frozen=True)
class Format:
    """The format of an export file; `name` is also the file's extension."""

    name: str
    content_type: str


FORMATS = {
    f.name: f
    for f in (
        Format("jsonl", "application/jsonl"),
        Format("parquet", "application/vnd.apache.parquet"),
    )
}


def stream_export_file(kind: str, selection: RowSelection, form: str) -> Iterator[bytes]:
    """Yield the file, piece by piece.

    Nothing larger than a few hundred rows (or a Parquet file's first 8 MB) is held in memory.
    """
    rows = export_rows(kind, selection)
    return _lines(rows) if form == "jsonl" else _parquet(kind, rows)


def write_export_file(kind: str, selection: RowSelection, form: str, stream: BinaryIO) -> int:
    """Write the file; return the number of rows."""
    count = 0

    def counted() -> Iterator[Row]:
        nonlocal count
        for row in export_rows(kind, selection):
            count += 1
            yield row

    if form == "parquet":
        return parquet.write_parquet(stream, export_schema(kind), counted())
    for piece in _lines(counted()):
        stream.write(piece)
    return count


def file_name(kind: str, selection: RowSelection, form: str) -> str:
    return f"{selection.run.project.slug}-{selection.run.slug}-{kind.replace('_', '-')}.{form}"


def _lines(rows: Iterator[Row]) -> Iterator[bytes]:
    return in_chunks(
        json.dumps(row, ensure_ascii=False, default=_plain, allow_nan=False).encode() + b"\n"
        for row in rows
    )


def _parquet(kind: str, rows: Iterator[Row]) -> Iterator[bytes]:
    with tempfile.SpooledTemporaryFile(IN_MEMORY) as stream:
        parquet.write_parquet(stream, export_schema(kind), rows)
        stream.seek(0)
        while piece := stream.read(CHUNK):
            yield piece


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} cannot be exported")
