"""Rows as Parquet files: a few thousand rows in memory at a time."""

from collections.abc import Iterable
from itertools import islice
from typing import IO

import pyarrow as arrow
import pyarrow.parquet as pq

ROWS_AT_ONCE = 1_000


def write_parquet(stream: IO[bytes], schema: arrow.Schema, rows: Iterable[dict]) -> int:
    """Write the rows as one file with this schema; return how many."""
    count = 0
    source = iter(rows)
    with pq.ParquetWriter(stream, schema) as writer:
        while some := list(islice(source, ROWS_AT_ONCE)):
            writer.write_batch(arrow.RecordBatch.from_pylist(some, schema))
            count += len(some)
    return count
