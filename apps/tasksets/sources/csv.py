"""CSV as RFC 4180 has it: texts under a header, quoted where they hold separators, quotes or line ends.

Every cell is a text, and an empty one is missing; a column whose name ends with `.json` holds JSON. A row's number is that of its
first line in the file.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from apps.tasksets.sources.jsonl import BYTE_ORDER_MARK, lines_of
from apps.tasksets.sources.records import LONGEST_LINE, BadLine, NotReadable, Record, excerpt_of, record_of_row, require_distinct

SEPARATORS = ",;\t|"
csv.field_size_limit(LONGEST_LINE)  # characters; a quote that is never closed swallows no more than these


class Csv:
    """A file of it; its header's most frequent separator is that of all rows."""

    def __init__(self, path: Path) -> None:
        self.path, self.size, self.at = path, path.stat().st_size, 0
        with path.open("rb") as stream:
            first = next(iter(lines_of(stream)), b"")
        self.separator = max(SEPARATORS, key=first.decode(errors="replace").count)

    def __iter__(self) -> Iterator[Record | BadLine]:
        with self.path.open("rb") as stream:
            rows = Rows(stream, self.separator)
            header = rows.header()
            for row in rows:
                self.at = stream.tell()
                yield row if isinstance(row, BadLine) else _record(rows.begun, row, header)


class Rows:
    """The rows of a stream, as lists of cells, or why they are none. `begun`: the first line of the newest."""

    def __init__(self, stream: BinaryIO, separator: str) -> None:
        self.cells = csv.reader(self._texts(stream), delimiter=separator, strict=True)
        self.begun, self.is_cut, self.first = 1, False, b""

    def header(self) -> list[str]:
        """Raises NotReadable."""
        found = next(iter(self), None)
        if found is None:
            raise NotReadable("the file is empty; its first line must name the columns")
        if isinstance(found, BadLine) or not _is_text("".join(found)):
            raise NotReadable(f"the first line names no columns: {found.reason if isinstance(found, BadLine) else 'not UTF-8'}")
        if not all(name.strip() for name in found):
            raise NotReadable("a column has no name in the first line")
        require_distinct(found)
        return found

    def __iter__(self) -> Iterator[list[str] | BadLine]:
        while True:
            self.begun, self.is_cut, self.first = self.cells.line_num + 1, False, b""
            try:
                row = next(self.cells)
            except StopIteration:
                return
            except csv.Error as error:
                yield self._bad(f"{error}{self._lost}")
                continue
            if self.is_cut:
                yield self._bad(f"longer than {LONGEST_LINE} bytes")
            elif row:
                yield row

    @property
    def _lost(self) -> str:
        """Which lines went with a quote that was not closed."""
        last = self.cells.line_num
        return f"; lines {self.begun} to {last} are this one row" if last > self.begun else ""

    def _bad(self, reason: str) -> BadLine:
        return BadLine(self.begun, reason, excerpt_of(self.first))

    def _texts(self, stream: BinaryIO) -> Iterator[str]:
        for number, raw in enumerate(lines_of(stream)):
            self.is_cut |= len(raw.rstrip(b"\r\n")) > LONGEST_LINE
            self.first = self.first or raw[:LONGEST_LINE]
            raw = raw if number else raw.removeprefix(BYTE_ORDER_MARK)
            yield raw.decode(errors="surrogateescape")


def _record(number: int, row: list[str], header: list[str]) -> Record | BadLine:
    said = "\t".join(row)
    if not _is_text(said):
        return BadLine(number, "not UTF-8", excerpt_of(said.encode(errors="surrogateescape")))
    if len(row) != len(header):
        return BadLine(number, f"the header has {len(header)} cells, this row {len(row)}", excerpt_of(said.encode()))
    return record_of_row(number, {name: cell or None for name, cell in zip(header, row, strict=True)})


def _is_text(said: str) -> bool:
    return said.isascii() or not any("\udc80" <= character <= "\udcff" for character in said)
