"""CSV by RFC 4180: texts under a header, quoted if they hold separators, quotes or line ends.

Excel's first line `sep=;` names the separator, a column without a name (as the one of row numbers
that pandas writes) is called "Unnamed: 0" by its place, and blanks around names are left out. Where
each separator of the header is followed by a blank, these blanks are no part of the cells.

Every cell is a text, and an empty one is missing; a column whose name ends with `.json` holds JSON.
A row's number is that of its first line in the file.
"""

import csv
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from apps.tasksets.sources.jsonl import iterate_lines
from apps.tasksets.sources.records import (
    MAX_LINE_BYTES,
    BadLine,
    NotReadable,
    Record,
    line_excerpt,
    record_of_row,
    require_distinct,
)
from apps.tasksets.sources.streams import TextStream

SEPARATORS = ",;\t|"
NAMED_SEPARATOR = re.compile(rb"\"?sep=([,;\t|])\"?[\r\n]*", re.IGNORECASE)
CARRIAGE_RETURNS = "has a carriage return outside of quotes; end lines with LF or CRLF"
csv.field_size_limit(
    MAX_LINE_BYTES
)  # characters; a quote that is never closed swallows no more than these


class Csv:
    """CSV file, separated by the most frequent separator of its header."""

    def __init__(self, path: Path) -> None:
        self.path, self.size, self.at = path, path.stat().st_size, 0
        with TextStream(path) as stream:
            lines = iterate_lines(stream)
            first = next(lines, b"")
            declaration = NAMED_SEPARATOR.fullmatch(first)
            header = (next(lines, b"") if declaration else first).decode(errors="replace")
        self.is_named = declaration is not None
        likeliest = max(SEPARATORS, key=header.count)
        self.separator = declaration[1].decode() if declaration else likeliest
        spaced = header.count(f"{self.separator} ")
        self.is_spaced = spaced > 0 and spaced == header.count(self.separator)

    def __iter__(self) -> Iterator[Record | BadLine]:
        with TextStream(self.path) as stream:
            rows = Rows(stream, self.separator, self.is_spaced, lines_before=int(self.is_named))
            header = rows.header()
            for row in rows:
                self.at = stream.at
                yield row if isinstance(row, BadLine) else _record(rows.begun, row, header)
        self.at = self.size


class Rows:
    """Rows of a stream, as lists of cells or bad lines.

    `begun`: the first line of the newest.
    """

    def __init__(
        self, stream: BinaryIO, separator: str, is_spaced: bool = False, lines_before: int = 0
    ) -> None:
        texts = islice(self._texts(stream), lines_before, None)
        self.cells = csv.reader(texts, delimiter=separator, strict=True, skipinitialspace=is_spaced)
        self.lines_before = lines_before
        self.begun = 1
        self.is_cut = False
        self.first = b""

    def header(self) -> list[str]:
        """Read the header. Raises NotReadable."""
        fields = next(iter(self), None)
        if fields is None:
            raise NotReadable("the file is empty; its first line must name the columns")
        if isinstance(fields, BadLine) or not _is_text("".join(fields)):
            raise NotReadable(
                "the first line names no columns:"
                f" {fields.reason if isinstance(fields, BadLine) else 'not UTF-8'}"
            )
        if not any(name.strip() for name in fields):
            raise NotReadable("no column has a name in the first line")
        names = [name.strip() or f"Unnamed: {place}" for place, name in enumerate(fields)]
        require_distinct(names)
        return names

    def __iter__(self) -> Iterator[list[str] | BadLine]:
        while True:
            self.begun = self.lines_before + self.cells.line_num + 1
            self.is_cut = False
            self.first = b""
            try:
                row = next(self.cells)
            except StopIteration:
                return
            except csv.Error as error:
                reason = CARRIAGE_RETURNS if "new-line character" in str(error) else error
                yield self._bad_line(f"{reason}{self._swallowed_lines}")
                continue
            if self.is_cut:
                yield self._bad_line(f"longer than {MAX_LINE_BYTES} bytes")
            elif row:
                yield row

    @property
    def _swallowed_lines(self) -> str:
        """Describe which lines an unclosed quote swallowed; "" if it is only one."""
        last = self.lines_before + self.cells.line_num
        return f"; lines {self.begun} to {last} are this one row" if last > self.begun else ""

    def _bad_line(self, reason: str) -> BadLine:
        return BadLine(self.begun, reason, line_excerpt(self.first))

    def _texts(self, stream: BinaryIO) -> Iterator[str]:
        for raw in iterate_lines(stream):
            self.is_cut |= len(raw.rstrip(b"\r\n")) > MAX_LINE_BYTES
            self.first = self.first or raw[:MAX_LINE_BYTES]
            yield raw.decode(errors="surrogateescape")


def _record(number: int, row: list[str], header: list[str]) -> Record | BadLine:
    text = "\t".join(row)
    if not _is_text(text):
        return BadLine(number, "not UTF-8", line_excerpt(text.encode(errors="surrogateescape")))
    if len(row) != len(header):
        return BadLine(
            number,
            f"the header has {len(header)} cells, this row {len(row)}",
            line_excerpt(text.encode()),
        )
    return record_of_row(
        number, {name: cell or None for name, cell in zip(header, row, strict=True)}
    )


def _is_text(text: str) -> bool:
    return text.isascii() or not any("\udc80" <= character <= "\udcff" for character in text)
