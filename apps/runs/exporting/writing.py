"""Encoding of a run's metrics, events and audit entries as bytes, piece by piece."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as arrow
import pyarrow.parquet as pq
from typing_extensions import Buffer

from apps.accounts.downloads import CHUNK, csv_cell, in_chunks
from apps.runs.exporting.reading import Batch, RunMetrics, audit_entries, iterate_events
from apps.runs.models import Run

CSV = "csv"
PARQUET = "parquet"
FORMATS = {CSV: "text/csv; charset=utf-8", PARQUET: "application/vnd.apache.parquet"}
JSONL = "application/jsonl"
SHAPES = ("long", "wide")
TIME = arrow.timestamp("us", tz="UTC")
LONG = {
    "name": arrow.string(),
    "step": arrow.int64(),
    "weight_version": arrow.int64(),
    "at": TIME,
    "value": arrow.float64(),
}
WIDE = {
    "step": arrow.int64(),
    "weight_version": arrow.int64(),
    "at": TIME,
}  # and a column for each name
ROW_GROUP = 100_000  # rows of a Parquet file that are read together


def choose_columns(metrics: RunMetrics, shape: str) -> dict[str, arrow.DataType]:
    return LONG if shape == "long" else WIDE | dict.fromkeys(metrics.names, arrow.float64())


def metrics_file(metrics: RunMetrics, shape: str, form: str) -> Iterator[bytes]:
    """Yield a file of metrics.

    `shape`: long (a row for each metric and step) or wide (a row for each step); `form`: csv or
    parquet.
    """
    columns = choose_columns(metrics, shape)
    batches = metrics.long() if shape == "long" else metrics.wide()
    return table_file(columns, batches, form)


def table_file(
    columns: Mapping[str, arrow.DataType], batches: Iterable[Batch], form: str
) -> Iterator[bytes]:
    """Yield a table as a file; one of the `columns` is `at`, a point in time."""
    return (
        _csv(list(columns), batches)
        if form == CSV
        else _parquet(arrow.schema(list(columns.items())), batches)
    )


def metrics_file_name(run: Run, shape: str, form: str) -> str:
    return f"{run.project.slug}-{run.slug}-metrics-{shape}.{form}"


def events_file(run: Run, after: int = 0) -> Iterator[bytes]:
    rows = (
        {"sequence": event.sequence, "at": event.at, "kind": event.kind, "payload": event.payload}
        for event in iterate_events(run, after)
    )
    return _lines(rows)


def audit_file(run: Run, after: int = 0) -> Iterator[bytes]:
    rows = (
        {
            "id": entry.pk,
            "at": entry.at,
            "name": entry.name or None,
            "action": entry.action,
            "target": entry.target,
            "details": entry.details,
        }
        for entry in audit_entries(run, after)
    )
    return _lines(rows)


def _lines(rows: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    return in_chunks(
        json.dumps(row, ensure_ascii=False, default=lambda at: at.isoformat()).encode() + b"\n"
        for row in rows
    )


def _csv(names: list[str], batches: Iterable[Batch]) -> Iterator[bytes]:
    """Yield the table as CSV: times as ISO 8601, missing values as empty fields.

    A number is the shortest text that reads back as itself.
    """
    at = names.index("at")
    text = io.StringIO()
    write = csv.writer(text, lineterminator="\n")
    write.writerow(map(csv_cell, names))
    for batch in batches:
        rows = ((*row[:at], row[at].isoformat(), *row[at + 1 :]) for row in batch)
        write.writerows(map(csv_cell, row) for row in rows)
        yield text.getvalue().encode()
        text.seek(0)
        text.truncate()
    if footer := text.getvalue():
        yield footer.encode()


def _parquet(schema: arrow.Schema, batches: Iterable[Batch]) -> Iterator[bytes]:
    outbox = DrainedFile()
    with pq.ParquetWriter(outbox, schema, compression="zstd") as writer:
        pending: list[tuple[Any, ...]] = []
        for batch in batches:
            pending += batch
            if len(pending) * len(schema.names) >= ROW_GROUP * len(LONG):
                writer.write_table(_table(schema, pending))
                pending.clear()
                yield from outbox.take_pending(CHUNK)
        if pending:
            writer.write_table(_table(schema, pending))
    yield from outbox.take_pending(1)


def _table(schema: arrow.Schema, rows: list[tuple[Any, ...]]) -> arrow.Table:
    columns = zip(zip(*rows, strict=True), schema.types, strict=True)
    return arrow.table([arrow.array(values, kind) for values, kind in columns], schema)


class DrainedFile(io.RawIOBase):
    """Write-only file whose bytes are taken away while more are written."""

    def __init__(self) -> None:
        self.pending = bytearray()
        self.sent = 0

    def writable(self) -> bool:
        return True

    def write(self, piece: Buffer) -> int:
        view = memoryview(piece)
        self.pending += view
        return view.nbytes

    def tell(self) -> int:
        return self.sent + len(self.pending)

    def take_pending(self, min_bytes: int) -> Iterator[bytes]:
        """Yield the pending bytes if there are at least `min_bytes` of them."""
        if len(self.pending) >= min_bytes:
            piece = bytes(self.pending)
            self.sent += len(piece)
            self.pending.clear()
            yield piece
