"""Range headers: the part of a file that a request asks for (RFC 9110, section 14)."""

import re
from dataclasses import dataclass

# The longest part that one response sends. It is less than what a download is made ahead of its
# reader (rftweb.answers.AHEAD), so that no slow reader keeps a thread.
MAX_PART_LENGTH = 64 * 1024 * 1024  # bytes
_ONE_RANGE = re.compile(r"bytes=([0-9]{1,15})-([0-9]{0,15})")


class NoSuchPart(Exception):
    """The file has no such part."""


@dataclass(frozen=True)
class Part:
    """Bytes from `first` to `end` (exclusive) of a file of `size` bytes."""

    first: int
    end: int
    size: int

    @property
    def length(self) -> int:
        return self.end - self.first

    @property
    def content_range(self) -> str:
        return f"bytes {self.first}-{self.end - 1}/{self.size}"


def parse_range(header: str, size: int) -> Part | None:
    """Return the requested part, of at most MAX_PART_LENGTH; None for the whole file.

    Several ranges, ranges from the end, and invalid ones are ignored, as RFC 9110 allows. Raises
    NoSuchPart for a range that begins after the file's end.
    """
    match = _ONE_RANGE.fullmatch(header.strip())
    if match is None:
        return None
    first, last = match.groups()
    begin = int(first)
    end = min(int(last) + 1 if last else size, size, begin + MAX_PART_LENGTH)
    if begin >= size or end <= begin:
        raise NoSuchPart
    return Part(begin, end, size)
