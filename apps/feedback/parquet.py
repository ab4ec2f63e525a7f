"""Parquet files as the rows of JSON lines, and rows as Parquet files: a few thousand rows in memory at a time."""

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import pyarrow as arrow
import pyarrow.parquet as pq

ROWS_AT_ONCE = 1_000
MAGIC = b"PAR1"


class NotParquet(ValueError):
    """The file is no Parquet that can be read; the message says why."""


def is_parquet(stream: BinaryIO) -> bool:
    """By its first bytes; the stream stands where it stood."""
    found = stream.read(len(MAGIC))
    stream.seek(-len(found), 1)
    return found == MAGIC


def lines_of(source: Path | BinaryIO, at: Callable[[int], None] = lambda row: None) -> Iterator[bytes]:
    """Each row as a line of JSON; `at(rows read)`. Raises NotParquet."""
    done = 0
    try:
        for batch in pq.ParquetFile(source).iter_batches(ROWS_AT_ONCE):
            for row in batch.to_pylist():
                yield json.dumps(row, ensure_ascii=False, default=_plain).encode("utf-8", "surrogatepass") + b"\n"
            done += batch.num_rows
            at(done)
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise NotParquet(f"row {done + 1} or one behind it cannot be read: {error}") from None


def write(stream: BinaryIO, schema: arrow.Schema, rows: Iterable[dict]) -> int:
    """Write the rows as one file with this schema; returns how many."""
    count, source = 0, iter(rows)
    with pq.ParquetWriter(stream, schema) as writer:
        while some := list(islice(source, ROWS_AT_ONCE)):
            writer.write_batch(arrow.RecordBatch.from_pylist(some, schema))
            count += len(some)
    return count


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        raise NotParquet("a column holds bytes; texts, numbers, lists and structs are read")
    return str(value)
