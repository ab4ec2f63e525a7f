"""Files as streams of UTF-8 bytes: decompressed within a bound, and transcoded."""

import bz2
import codecs
import gzip
import io
import lzma
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

import pyarrow as arrow

from apps.accounts.public_text import public_text
from apps.tasksets.sources.records import NotReadable

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

# Of one compressed file, unpacked. A few kilobytes can unpack to any amount.
MAX_UNPACKED_BYTES = 4 * 1000 * 1000 * 1000
PIECE = 1 << 16
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAGIC = {
    "gzip": re.compile(rb"\x1f\x8b"),
    "bzip2": re.compile(rb"BZh[1-9]1AY&"),
    "xz": re.compile(rb"\xfd7zXZ\x00"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd"),
}
# Longer marks first: that of UTF-16 begins that of UTF-32.
MARKS = {
    b"\xff\xfe\x00\x00": "utf-32-le",
    b"\x00\x00\xfe\xff": "utf-32-be",
    b"\xff\xfe": "utf-16-le",
    b"\xfe\xff": "utf-16-be",
}
BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, arrow.ArrowException)


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def detect_compression(path: Path) -> str:
    """Return how the file is compressed, by its first bytes; "" where it is not."""
    with path.open("rb") as stream:
        first = stream.read(8)
    return next((name for name, magic in MAGIC.items() if magic.match(first)), "")


class Text(io.RawIOBase):
    """UTF-8 bytes of a file, without a byte order mark; `at`: bytes of the file read so far.

    Reading raises NotReadable where the file is damaged, unpacks to too much, or is not in its
    encoding.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("rb")
        self._compression = detect_compression(path)
        try:
            self._source = _decompressed(self._file, self._compression)
            self._unpacked = 0
            first = self._read(PIECE)
        except BaseException:
            self._file.close()
            raise
        self._encoding, mark = _encoding_of(first)
        self._decoder = (
            codecs.getincrementaldecoder(self._encoding)() if self._encoding != "utf-8" else None
        )
        self._pending = self._transcoded(first[len(mark) :], is_last=not first)

    @property
    def at(self) -> int:
        return self._file.tell()

    def readable(self) -> bool:
        return True

    def readinto(self, target: "WriteableBuffer", /) -> int:
        buffer = memoryview(target)
        while not self._pending:
            piece = self._read(PIECE)
            self._pending = self._transcoded(piece, is_last=not piece)
            if not piece:
                break
        piece_read = self._pending[: len(buffer)]
        buffer[: len(piece_read)] = piece_read
        self._pending = self._pending[len(piece_read) :]
        return len(piece_read)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()

    def _read(self, size: int) -> bytes:
        try:
            piece = self._source.read(size)
        except BROKEN as error:
            what = (
                f"not a readable {self._compression} file"
                if self._compression
                else "the file cannot be read"
            )
            raise NotReadable(f"{what}: {public_text(error)}") from None
        self._unpacked += len(piece)
        if self._compression and self._unpacked > MAX_UNPACKED_BYTES:
            raise NotReadable(
                f"the unpacked file is larger than {MAX_UNPACKED_BYTES / 1e9:g} GB; split it into "
                "smaller files"
            )
        return piece

    def _transcoded(self, piece: bytes, is_last: bool) -> bytes:
        if self._decoder is None:
            return piece
        try:
            return self._decoder.decode(piece, is_last).encode()
        except UnicodeError as error:
            name = self._encoding.rpartition("-")[0].upper()
            reason = getattr(error, "reason", str(error))
            raise NotReadable(
                f"the file starts as {name} but is not valid {name}: {reason}"
            ) from None


def _decompressed(file: BinaryIO, compression: str) -> _Readable:
    match compression:
        case "gzip":
            return gzip.GzipFile(fileobj=file)
        case "bzip2":
            return bz2.BZ2File(file)
        case "xz":
            return lzma.LZMAFile(file)
        case "zstd":
            return arrow.CompressedInputStream(arrow.PythonFile(file, mode="r"), "zstd")
    return file


def _encoding_of(first: bytes) -> tuple[str, bytes]:
    """Return the encoding and its mark; without a mark, JSON and tables of ASCII tell UTF-16 by
    their zeros."""
    if first.startswith(BYTE_ORDER_MARK):
        return "utf-8", BYTE_ORDER_MARK
    for mark, encoding in MARKS.items():
        if first.startswith(mark):
            return encoding, mark
    match [bool(byte) for byte in first[:4]]:
        case [True, False, True, False]:
            return "utf-16-le", b""
        case [False, True, False, True]:
            return "utf-16-be", b""
    return "utf-8", b""


class TextStream(io.BufferedReader):
    """A buffered `Text`."""

    raw: Text

    def __init__(self, path: Path) -> None:
        super().__init__(Text(path), PIECE)

    @property
    def at(self) -> int:
        return self.raw.at


def first_bytes(path: Path, size: int) -> bytes:
    """Return the beginning of what the file holds, decompressed and as UTF-8.

    Raises NotReadable.
    """
    with TextStream(path) as stream:
        return stream.read(size)


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """Yield a copy of a compressed file that is not, for readers that jump about in it.

    Raises NotReadable.
    """
    # A file without a name: nothing of it stays where the process is killed.
    with tempfile.TemporaryFile() as copy, Text(path) as source:
        shutil.copyfileobj(source, copy, PIECE)
        copy.flush()
        yield Path(f"/proc/self/fd/{copy.fileno()}")
