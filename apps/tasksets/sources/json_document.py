"""JSON that is no JSON lines.

An array of rows, rows spelt over several lines, or an object that holds a list of rows. The rows of
an array are found one after another, so that a file of any size is read in bounded
memory.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from apps.tasksets.sources.records import (
    MAX_LINE_BYTES,
    BadLine,
    NotReadable,
    Record,
    decode_record,
)
from apps.tasksets.sources.streams import PIECE, TextStream, first_bytes

# Keys of a document under which data sets keep their rows.
LISTS = frozenset(
    b"data rows train test validation valid dev examples instances items records samples "
    b"questions tasks".split()
)
OUTSIDE = re.compile(rb'[^"{}\[\],]*+')
# All of a row up to the next bracket, or to a text that does not end in what was read so far.
DEEP = re.compile(rb'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
INSIDE = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
BLANK = b" \t\r\n"
HOLDS_LIST = re.compile(rb'"(?:%s)"\s*:\s*\[\s*\{' % b"|".join(sorted(LISTS)))

# A task of ARC-AGI: its lists are pairs of grids, and no rows.
LISTS_OF_GRIDS = frozenset({b"train", b"test"})
HOLDS_GRIDS = re.compile(rb'"train"\s*:\s*\[\s*\{\s*"(?:input|output)"\s*:\s*\[\s*\[')


def is_document(first: bytes) -> bool:
    """Return whether JSON that begins so is something else than one object a line."""
    text = first.lstrip()
    if text.startswith(b"["):
        return True
    line, end, rest = text.partition(b"\n")
    if not line.startswith(b"{"):
        return False
    if line.rstrip().endswith((b"{", b"[", b",", b":")):  # spelt over several lines
        return True
    is_all = not (end and rest.strip())
    holds_rows = HOLDS_LIST.search(line) is not None and HOLDS_GRIDS.search(line) is None
    return is_all and holds_rows


class JsonDocument:
    """JSON file; a row's number is its place among the rows, from 1."""

    def __init__(self, path: Path) -> None:
        self.path, self.size, self.at = path, path.stat().st_size, 0

    def __iter__(self) -> Iterator[Record | BadLine]:
        is_grids = HOLDS_GRIDS.search(first_bytes(self.path, PIECE)) is not None
        lists = LISTS - LISTS_OF_GRIDS if is_grids else LISTS
        with TextStream(self.path) as stream:
            for number, raw in enumerate(rows_in(stream, lists), start=1):
                self.at = stream.at
                yield decode_record(number, raw)
        self.at = self.size


def rows_in(stream: BinaryIO, lists: frozenset[bytes] = LISTS) -> Iterator[bytes]:
    """Yield the bytes of each row; one that is too long comes cut just behind the limit.

    `lists`: the keys under which an object may hold the rows. Raises NotReadable.
    """
    splitter = _Splitter(lists)
    while piece := stream.read(PIECE):
        yield from splitter.feed(piece)
    yield from splitter.end()


def _end(match: re.Match[bytes] | None) -> int:
    """Return the end of a match of a pattern that always matches, if only the empty text."""
    assert match is not None
    return match.end()


class _Splitter:
    """Splitter of a document into rows, which leaves their content to the decoder.

    `base` is the depth at which rows stand: 0 where they follow each other, 1 in an array, 2 in a
    list of an object.
    """

    def __init__(self, lists: frozenset[bytes]) -> None:
        self.lists = lists
        self.depth = self.base = 0
        self.in_text = False
        self.row = bytearray()
        self.text = bytearray()  # the newest text of the document's own object: perhaps a key
        self.list_name = self.candidate = b""
        self.rest = b""

    def feed(self, piece: bytes) -> Iterator[bytes]:
        piece = self.rest + piece
        self.rest = b""
        at = 0
        while at < len(piece):
            if self.in_text:
                end = _end(INSIDE.match(piece, at))
                self._keep(piece[at:end])
                if (
                    end + 1 == len(piece) and piece[end:] == b"\\"
                ):  # the escaped byte comes with the next piece
                    self.rest = piece[end:]
                    return
                at = end
                if at < len(piece):
                    self._keep(piece[at : at + 1])
                    self.in_text = False
                    at += 1
                continue
            is_deep = self.depth > self.base > 0
            end = _end(DEEP.match(piece, at) if is_deep else OUTSIDE.match(piece, at))
            self._keep(piece[at:end])
            if end < len(piece):
                yield from self._sign(piece[end : end + 1])
            at = end + 1

    def _sign(self, sign: bytes) -> Iterator[bytes]:
        """Take a bracket, a comma or the beginning of a text."""
        candidate = self.candidate if sign == b"{" else b""
        self.candidate = b""
        match sign:
            case b'"':
                self.in_text = True
                self.text.clear()
                self._keep(sign)
                self.text.clear()
            case b"{" | b"[":
                yield from self._open(sign, candidate)
            case b"}" | b"]":
                yield from self._close(sign)
            case b"," if self.depth == self.base:
                yield from self._end_row()
            case _:
                self._keep(sign)

    def _open(self, sign: bytes, candidate: bytes) -> Iterator[bytes]:
        """Enter a bracket; `candidate` is the key right before it, of a list that may hold rows."""
        if sign == b"[" and self.depth == 0:
            yield from self._end_row()
            self.base = 1
        else:
            if (
                sign == b"["
                and self.depth == 1
                and not self.base
                and bytes(self.text[:-1]) in self.lists
            ):
                self.candidate = bytes(self.text[:-1])
            elif candidate:
                self._enter_list(candidate)
            self._keep(sign)
        self.depth += 1

    def _enter_list(self, name: bytes) -> None:
        if self.list_name:
            names = f"{self.list_name.decode()} and {name.decode()}"
            raise NotReadable(f"the file contains several lists of rows, {names}; keep one of them")
        self.list_name = name
        self.row.clear()
        self.base = 2

    def _close(self, sign: bytes) -> Iterator[bytes]:
        self.depth = max(0, self.depth - 1)
        if self.base and self.depth < self.base:  # the list ends
            yield from self._end_row()
            self.base = 0
            return
        self._keep(sign)
        if self.depth == 0 and not self.base:
            if self.list_name:  # what stood around the list
                self.row.clear()
            yield from self._end_row()

    def _keep(self, piece: bytes) -> None:
        if len(self.row) <= MAX_LINE_BYTES:
            self.row += piece[: MAX_LINE_BYTES + 1 - len(self.row)]
        if self.depth == 1 and self.base == 0 and self.in_text and len(self.text) < 100:
            self.text += piece

    def _end_row(self) -> Iterator[bytes]:
        row = bytes(self.row).strip(BLANK)
        self.row.clear()
        if row:
            yield row

    def end(self) -> Iterator[bytes]:
        """Yield what is left, a row that was cut off.

        Raises NotReadable where a list does not end.
        """
        if self.base and not self.row.strip(BLANK):
            raise NotReadable("the file is truncated: its list of rows does not end")
        yield from self._end_row()
