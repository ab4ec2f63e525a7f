"""Parquet files as the rows of JSON lines, and rows as Parquet files: a few thousand rows in memory at a time."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import pyarrow as arrow
import pyarrow.parquet as pq

from apps.accounts.confining import TOO_MUCH, environment, require_decoder
from apps.accounts.public_text import public_text

ROWS_AT_ONCE = 1_000
MAGIC = b"PAR1"
ROOT = Path(__file__).resolve().parents[2]
CHILD = [sys.executable, "-m", "apps.feedback.parquet_child"]


class NotParquet(ValueError):
    """The file is no Parquet that can be read; the message says why."""


def is_parquet(stream: BinaryIO) -> bool:
    """By its first bytes; the stream stands where it stood."""
    found = stream.read(len(MAGIC))
    stream.seek(-len(found), 1)
    return found == MAGIC


def lines_of(source: Path | BinaryIO, at: Callable[[int], None] = lambda row: None) -> Iterator[bytes]:
    """Each row as a line of JSON; `at(rows read)`. Raises NotParquet."""
    require_decoder()
    done = 0
    try:
        for batch in pq.ParquetFile(source).iter_batches(ROWS_AT_ONCE):
            for row in batch.to_pylist():
                yield json.dumps(row, ensure_ascii=False, default=_plain).encode("utf-8", "surrogatepass") + b"\n"
            done += batch.num_rows
            at(done)
    except MemoryError:  # Arrow's own is both
        raise
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise NotParquet(f"row {done + 1} or one behind it cannot be read: {public_text(error)}") from None


def lines_apart(stream: BinaryIO) -> Iterator[bytes]:
    """The same of an open file, read by a child with bounded memory. Raises NotParquet."""
    # Opened anew: a descriptor that is passed on would share its place in the file with ours.
    with _as_file(stream) as ours, open(f"/proc/self/fd/{ours.fileno()}", "rb") as file, tempfile.TemporaryFile() as complaints:
        child = subprocess.Popen(CHILD, cwd=ROOT, env=environment(), stdin=file, stdout=subprocess.PIPE, stderr=complaints)
        try:
            yield from child.stdout
            if child.wait() != 0:
                raise NotParquet(_last_words(complaints) or TOO_MUCH)
        finally:
            child.stdout.close()
            child.kill()
            child.wait()


def _as_file(stream: BinaryIO) -> AbstractContextManager[BinaryIO]:
    """The stream if it is a file of the system, otherwise a copy of it that is one."""
    try:
        stream.fileno()
    except (OSError, AttributeError):  # in memory
        copy = tempfile.TemporaryFile()  # noqa: SIM115 - closed by who uses it
        shutil.copyfileobj(stream, copy)
        copy.flush()
        return copy
    return nullcontext(stream)


def _last_words(complaints: BinaryIO) -> str:
    complaints.seek(0)
    lines = complaints.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


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
