"""Arrow's record batches as records, a few hundred rows at a time."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as arrow

from apps.accounts.confining import TOO_MUCH_MEMORY
from apps.accounts.public_text import public_text
from apps.tasksets.sources.records import (
    BadLine,
    NotReadable,
    Record,
    Source,
    record_of_row,
    without_nulls,
)
from apps.tasksets.sources.streams import unpacked

ROWS_AT_ONCE = 500
DAMAGE = (
    arrow.ArrowException,
    OSError,
    UnicodeDecodeError,
)  # what pyarrow says of files that are none

# Of one row: a text that is none, a time that Python has no word for, a map with two equal keys.
UNREADABLE = (ValueError, OverflowError, KeyError)


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
        part = _with_short_floats(batch.slice(start, ROWS_AT_ONCE))
        try:
            rows = _plain_rows(part)
        except UNREADABLE:
            yield from (
                _decode_row(part.slice(place, 1), first + start + place)
                for place in range(part.num_rows)
            )
        else:
            yield from (record_of_row(first + start + place, row) for place, row in enumerate(rows))


def _plain_rows(batch: arrow.RecordBatch) -> list[dict[str, Any]]:
    """Return the rows; maps are objects. Raises UNREADABLE."""
    nested = [field.name for field in batch.schema if arrow.types.is_nested(field.type)]
    rows = batch.to_pylist(maps_as_pydicts="strict")
    for row in rows:
        row.update({name: without_nulls(row[name]) for name in nested})
    return rows


def _with_short_floats(batch: arrow.RecordBatch) -> arrow.RecordBatch:
    """Return the batch with floats of 16 and 32 bits at their shortest.

    0.1 in a file stays 0.1 and does not become 0.10000000149011612.
    """
    kinds = [(field.type, _replaced(field.type, arrow.string())) for field in batch.schema]
    columns = [
        column if kind == as_text else column.cast(as_text).cast(_replaced(kind, arrow.float64()))
        for column, (kind, as_text) in zip(batch.columns, kinds, strict=True)
    ]
    return arrow.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _replaced(kind: arrow.DataType, by: arrow.DataType) -> arrow.DataType:
    """Return the type with another one in the place of short floats, also within lists."""
    if arrow.types.is_float16(kind) or arrow.types.is_float32(kind):
        return by
    if arrow.types.is_list(kind):
        inner = _replaced(kind.value_type, by)
        return kind if inner == kind.value_type else arrow.list_(inner)
    if arrow.types.is_struct(kind):
        fields = [arrow.field(field.name, _replaced(field.type, by)) for field in kind]
        is_same = all(new.type == old.type for new, old in zip(fields, kind, strict=True))
        return kind if is_same else arrow.struct(fields)
    return kind


def _decode_row(row: arrow.RecordBatch, number: int) -> Record | BadLine:
    try:
        return record_of_row(number, _plain_rows(row)[0])
    except UnicodeDecodeError:
        return BadLine(number, "not UTF-8", "")
    except KeyError:
        return BadLine(number, "a map has two equal keys", "")
    except UNREADABLE as error:
        return BadLine(number, public_text(error)[:300], "")


def damaged(row: int, error: Exception) -> NotReadable:
    return NotReadable(f"row {row} or a later one cannot be read: {describe_table_error(error)}")


def describe_table_error(error: Exception) -> str:
    """Return what is wrong with a file, in words.

    Arrow also asks for impossible amounts of memory if a file is damaged.
    """
    return TOO_MUCH_MEMORY if isinstance(error, MemoryError) else public_text(error)
