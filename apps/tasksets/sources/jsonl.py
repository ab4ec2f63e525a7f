"""JSON lines: one object a line; blank lines are skipped."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from apps.tasksets.sources.records import LONGEST_LINE, BadLine, Record, record_of

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class JsonLines:
    """A file of them."""

    def __init__(self, path: Path) -> None:
        self.path, self.size, self.at = path, path.stat().st_size, 0

    def __iter__(self) -> Iterator[Record | BadLine]:
        with self.path.open("rb") as stream:
            for record in records_of(stream):
                self.at = stream.tell()
                yield record


def records_of(stream: BinaryIO) -> Iterator[Record | BadLine]:
    """What the lines of the stream hold, in their order."""
    for number, raw in enumerate(lines_of(stream), start=1):
        if number == 1:
            raw = raw.removeprefix(BYTE_ORDER_MARK)
        if raw.strip():
            yield record_of(number, raw)


def lines_of(stream: BinaryIO) -> Iterator[bytes]:
    """Lines of the stream; one that is too long comes cut just behind the limit, its rest is skipped."""
    while raw := stream.readline(LONGEST_LINE + 2):
        rest = raw
        while len(rest) > LONGEST_LINE and not rest.endswith(b"\n"):
            rest = stream.readline(LONGEST_LINE + 2)
        yield raw
