"""JSON lines: one object a line; blank lines are skipped."""

from collections.abc import Iterator
from pathlib import Path
from typing import IO

from apps.tasksets.sources.records import MAX_LINE_BYTES, BadLine, Record, decode_record
from apps.tasksets.sources.streams import BYTE_ORDER_MARK, TextStream


class JsonLines:
    """File of JSON lines."""

    def __init__(self, path: Path) -> None:
        self.path, self.size, self.at = path, path.stat().st_size, 0

    def __iter__(self) -> Iterator[Record | BadLine]:
        with TextStream(self.path) as stream:
            for record in iterate_records(stream):
                self.at = stream.at
                yield record
        self.at = self.size


def iterate_records(stream: IO[bytes]) -> Iterator[Record | BadLine]:
    """Yield the records of a stream's lines, in their order."""
    for number, raw in enumerate(iterate_lines(stream), start=1):
        if number == 1:
            raw = raw.removeprefix(BYTE_ORDER_MARK)
        if raw.strip():
            yield decode_record(number, raw)


def iterate_lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield lines of the stream.

    One that is too long comes cut just behind the limit, its rest is skipped.
    """
    while raw := stream.readline(MAX_LINE_BYTES + 2):
        piece = raw
        while len(piece) > MAX_LINE_BYTES and not piece.endswith(b"\n"):
            piece = stream.readline(MAX_LINE_BYTES + 2)
        yield raw
