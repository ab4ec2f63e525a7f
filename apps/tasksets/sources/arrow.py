"""Arrow IPC, as file (Feather 2) and as stream (as `datasets` stores it), memory-mapped.

Only the current batch is in memory.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as arrow

from apps.tasksets.sources.records import BadLine, NotReadable, Record, require_distinct
from apps.tasksets.sources.tables import DAMAGE, damaged, describe_table_error, records_in

FILE = b"ARROW1"
STREAM = b"\xff\xff\xff\xff"


def is_arrow(first: bytes) -> bool:
    """Tell whether a file is Arrow, by its first bytes."""
    return first.startswith((FILE, STREAM))


class Arrow:
    """Arrow file, of either kind."""

    def __init__(self, path: Path) -> None:
        self.path, self.size, self.at = path, path.stat().st_size, 0
        try:
            with self._opened() as (schema, _):
                require_distinct(schema.names)
        except DAMAGE as error:
            raise NotReadable(
                f"not a readable Arrow IPC file: {describe_table_error(error)}"
            ) from None

    def __iter__(self) -> Iterator[Record | BadLine]:
        row_count = 0
        try:
            with self._opened() as (_, batches):
                for batch, at in batches:
                    batch.validate(
                        full=True
                    )  # a file may claim to reach beyond its end, and pyarrow would follow it there
                    yield from records_in(batch, row_count + 1)
                    row_count += batch.num_rows
                    self.at = at
            self.at = self.size
        except DAMAGE as error:
            raise damaged(row_count + 1, error) from None

    @contextmanager
    def _opened(self) -> Iterator[tuple[arrow.Schema, Iterator[tuple[arrow.RecordBatch, int]]]]:
        """Yield the schema, and an iterator of batches with the offset of the byte after each."""
        with arrow.memory_map(str(self.path)) as mapped:
            is_file = mapped.read(len(FILE)) == FILE
            mapped.seek(0)
            if is_file:
                reader = arrow.ipc.open_file(mapped)
                batch_count = reader.num_record_batches
                yield (
                    reader.schema,
                    (
                        (reader.get_batch(n), self.size * (n + 1) // batch_count)
                        for n in range(batch_count)
                    ),
                )
            else:
                reader = arrow.ipc.open_stream(mapped)
                yield reader.schema, ((batch, mapped.tell()) for batch in reader)
