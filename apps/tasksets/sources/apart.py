"""Rows of an uploaded file, read by a child process with bounded memory.

This is for processes that decode no files themselves. Plain JSON lines need no child: they are read
a line at a time, as bodies of requests are.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from apps.accounts import strict_json
from apps.accounts.confining import confined_environment, why_it_ended
from apps.tasksets.sources import guess_format
from apps.tasksets.sources.archive import is_zip
from apps.tasksets.sources.jsonl import JsonLines
from apps.tasksets.sources.records import (
    BadLine,
    NotReadable,
    Record,
    Source,
    decode_record,
    line_excerpt,
    record_of_table,
)
from apps.tasksets.sources.streams import detect_compression

ROOT = Path(__file__).resolve().parents[3]
CHILD = "apps.tasksets.sources.apart_child"
LESSONS_CPU_S = 300  # processor seconds for a file that a request waits for
MAX_REASON_LENGTH = 1_000  # characters of what is wrong with a row
MAX_HEAD_BYTES = 16 * MAX_REASON_LENGTH  # bytes: JSON writes a character as up to twelve


def source_of_file(
    path: Path, format: str = "auto", split: str = "", cpu_s: float = LESSONS_CPU_S
) -> Source:
    """Return a source of the file's rows that takes at most `cpu_s` processor seconds.

    Raises NotReadable and OSError, also while the rows are read.
    """
    if format in ("auto", "jsonl") and not split and _is_plain(path):
        return JsonLines(path)
    return ConfinedSource(path, format, split, cpu_s)


def records_of_file(
    path: Path, format: str = "auto", split: str = ""
) -> Iterator[Record | BadLine]:
    """Yield the rows of a file. Raises NotReadable, OSError."""
    yield from source_of_file(path, format, split)


def _is_plain(path: Path) -> bool:
    return (
        not (path.is_dir() or detect_compression(path) or is_zip(path))
        and guess_format(path) == "jsonl"
    )


class ConfinedSource:
    """Rows of a file or folder that a child process with bounded memory decodes."""

    def __init__(self, path: Path, format: str, split: str, cpu_s: float) -> None:
        self.path = path
        self.size = _bytes_of(path)
        self.at = 0
        self._options = [f"--format={format}", f"--split={split}", f"--cpu-s={cpu_s:g}"]

    def __iter__(self) -> Iterator[Record | BadLine]:
        self.at = 0
        command = [sys.executable, "-m", CHILD, str(self.path.resolve()), *self._options]
        # What the child unpacks goes with this folder, also where the child is killed.
        with (
            tempfile.TemporaryDirectory(prefix="unpacked-") as place,
            tempfile.TemporaryFile() as complaints,
        ):
            child = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**confined_environment(), "TMPDIR": place},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=complaints,
            )
            assert child.stdout is not None  # a pipe
            try:
                yield from self._records(child.stdout)
                if status := child.wait():
                    raise NotReadable(why_it_ended(status, _last_error_line(complaints)))
            finally:
                child.stdout.close()
                child.kill()
                child.wait()
        self.at = self.size

    def _records(self, stream: IO[bytes]) -> Iterator[Record | BadLine]:
        """Yield the rows that the child writes as `encode_record` writes them."""
        while head := stream.readline(MAX_HEAD_BYTES):
            number, size, reason, decodes_columns, share = strict_json.decode_json(head)
            raw = stream.read(size)
            if len(raw) < size:  # the child ended; its exit status says why
                return
            self.at = int(share * self.size)
            if reason is not None:
                yield BadLine(number, reason, line_excerpt(raw), raw=raw)
            else:
                yield (record_of_table if decodes_columns else decode_record)(number, raw)


def _bytes_of(path: Path) -> int:
    if not path.is_dir():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def encode_record(record: Record | BadLine, share: float) -> bytes:
    """Return a row as the child writes it: a head, and the bytes of the row.

    The head is `[number, bytes of the row, why it is bad or null, whether columns hold JSON, share
    of the file that is read]`.
    """
    reason = record.reason[:MAX_REASON_LENGTH] if isinstance(record, BadLine) else None
    raw = record.raw or (record.excerpt.encode() if isinstance(record, BadLine) else b"")
    decodes_columns = isinstance(record, Record) and record.decodes_columns
    head = [record.number, len(raw), reason, decodes_columns, round(share, 6)]
    return json.dumps(head).encode() + b"\n" + raw


def _last_error_line(complaints: IO[bytes]) -> str:
    complaints.seek(0)
    lines = complaints.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
