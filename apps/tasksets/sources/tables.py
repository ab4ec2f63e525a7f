"""Arrow's record batches as records, a few hundred rows at a time."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as arrow

from apps.accounts.confining import TOO_MUCH_MEMORY
from apps.accounts.public_text import public_text
from apps.tasksets.sources.records import BadLine, NotReadable, Record, Source, record_of_row
from apps.tasksets.sources.streams import unpacked

ROWS_AT_ONCE = 500
DAMAGE = (
    arrow.ArrowException,
    OSError,
    UnicodeDecodeError,
)  # what pyarrow says of files that are none


class CompressedTable:
    """A table in a compressed file.

    Readers of tables jump about in it, so they read a copy that is unpacked.
    """

    def __init__(self, path: Path, read: Callable[[Path], Source]) -> None:
        self._copy = ExitStack()
        self._source = read(self._copy.enter_context(unpacked(path)))
        self.size = self._source.size

    @property
    def at(self) -> int:
        return self._source.at

    def __iter__(self) -> Iterator[Record | BadLine]:
        yield from self._source


def records_in(batch: arrow.RecordBatch, first: int) -> Iterator[Record | BadLine]:
    """Yield the rows of a batch, numbered from `first`."""
    for start in range(0, batch.num_rows, ROWS_AT_ONCE):
        some = batch.slice(start, ROWS_AT_ONCE)
        try:
            rows = some.to_pylist()
        except (
            ValueError,
            OverflowError,
        ):  # a text that is none, or a time that Python has no word for, in one of them
            yield from (
                _decode_row(some.slice(place, 1), first + start + place)
                for place in range(some.num_rows)
            )
        else:
            yield from (record_of_row(first + start + place, row) for place, row in enumerate(rows))


def _decode_row(row: arrow.RecordBatch, number: int) -> Record | BadLine:
    try:
        return record_of_row(number, row.to_pylist()[0])
    except UnicodeDecodeError:
        return BadLine(number, "not UTF-8", "")
    except (ValueError, OverflowError) as error:
        return BadLine(number, public_text(error)[:300], "")


def damaged(row: int, error: Exception) -> NotReadable:
    return NotReadable(f"row {row} or a later one cannot be read: {describe_table_error(error)}")


def describe_table_error(error: Exception) -> str:
    """Return what is wrong with a file, in words.

    Arrow also asks for impossible amounts of memory if a file is damaged.
    """
    return TOO_MUCH_MEMORY if isinstance(error, MemoryError) else public_text(error)
