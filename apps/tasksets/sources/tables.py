"""Arrow's record batches as records, a few hundred rows at a time."""

from collections.abc import Iterator

import pyarrow as arrow

from apps.accounts.confining import TOO_MUCH_MEMORY
from apps.accounts.public_text import public_text
from apps.tasksets.sources.records import BadLine, NotReadable, Record, record_of_row

ROWS_AT_ONCE = 500
DAMAGE = (arrow.ArrowException, OSError, UnicodeDecodeError)  # what pyarrow says of files that are none


def records_in(batch: arrow.RecordBatch, first: int) -> Iterator[Record | BadLine]:
    """The rows of a batch, numbered from `first`."""
    for start in range(0, batch.num_rows, ROWS_AT_ONCE):
        some = batch.slice(start, ROWS_AT_ONCE)
        try:
            rows = some.to_pylist()
        except (ValueError, OverflowError):  # a text that is none, or a time that Python has no word for, in one of them
            yield from (_alone(some.slice(place, 1), first + start + place) for place in range(some.num_rows))
        else:
            yield from (record_of_row(first + start + place, row) for place, row in enumerate(rows))


def _alone(row: arrow.RecordBatch, number: int) -> Record | BadLine:
    try:
        return record_of_row(number, row.to_pylist()[0])
    except UnicodeDecodeError:
        return BadLine(number, "not UTF-8", "")
    except (ValueError, OverflowError) as error:
        return BadLine(number, public_text(error)[:300], "")


def damaged(row: int, error: Exception) -> NotReadable:
    return NotReadable(f"row {row} or one behind it cannot be read: {reason_of(error)}")


def reason_of(error: Exception) -> str:
    """Say what is wrong: Arrow also asks for impossible amounts of memory where a file is damaged."""
    return TOO_MUCH_MEMORY if isinstance(error, MemoryError) else public_text(error)
