"""Parquet, read page by page: at most a few hundred rows are held as objects."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from apps.tasksets.sources.records import BadLine, NotReadable, Record, require_distinct
from apps.tasksets.sources.tables import (
    DAMAGE,
    ROWS_AT_ONCE,
    damaged,
    describe_table_error,
    records_in,
)

MAGIC = b"PAR1"


class Parquet:
    """Parquet file."""

    def __init__(self, path: Path) -> None:
        self.path, self.size, self.at = path, path.stat().st_size, 0
        try:
            require_distinct(pq.read_schema(path).names)
        except DAMAGE as error:
            raise NotReadable(
                f"not a readable Parquet file: {describe_table_error(error)}"
            ) from None

    def __iter__(self) -> Iterator[Record | BadLine]:
        row_count = 0
        try:
            with pq.ParquetFile(self.path) as file:
                for batch in file.iter_batches(ROWS_AT_ONCE):
                    yield from records_in(batch, row_count + 1)
                    row_count += batch.num_rows
                    self.at = self.size * row_count // file.metadata.num_rows
        except DAMAGE as error:
            raise damaged(row_count + 1, error) from None
