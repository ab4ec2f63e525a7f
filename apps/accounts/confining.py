"""Limits on the memory and processor time of a process that decodes uploaded files."""

import math
import os
import resource
import signal
from pathlib import Path

MEMORY = 1024 * 1024 * 1024  # bytes beyond what the process uses when it is confined
MAPPED = 4 * 1000 * 1000 * 1000  # bytes of files that may be mapped besides, as Arrow files are
CPU_S = 30 * 60  # processor seconds for one file
KILLED_AFTER_S = 30  # seconds beyond the limit, for a decoder that never returns to Python
_SMALLER = "use a smaller file, or store its rows without compression"
_MUCH_MEMORY = f"reading the file takes more than {MEMORY // 1024**2} MB of memory"
TOO_MUCH_MEMORY = f"{_MUCH_MEMORY}; {_SMALLER}"
# For a process that the kernel killed, which cannot say which limit it reached.
TOO_MUCH = f"{_MUCH_MEMORY} or {CPU_S // 60} minutes of processor time; {_SMALLER}"
_confined = False
_serves = False


class DecodesNothing(RuntimeError):
    """Raised when a web process tries to decode an uploaded file; this is a bug."""


class TooSlow(Exception):
    """Raised when the process has used its processor time; the message says how much it had.

    It is no ValueError, because readers treat those as invalid lines and continue.
    """


def confine_web_process() -> None:
    """Mark this process as a web process: from now on it decodes no tables and archives.

    Called when a server starts its application, and not when the application is merely imported.
    """
    global _serves
    _serves = True


def require_decoder() -> None:
    """Raise DecodesNothing in a web process."""
    if _serves:
        raise DecodesNothing("files of people are decoded by workers and by confined children")


def confine(memory: int = MEMORY, cpu_s: float | None = CPU_S) -> None:
    """Limit this process to `memory` more bytes and `cpu_s` processor seconds (None: no limit).

    An allocation beyond the limit raises MemoryError, or the process ends. Beyond the time limit,
    the main thread gets TooSlow, and the process is killed if it does not return to Python within
    some more seconds.
    """
    global _confined
    sizes = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    data = _bytes(sizes["VmData"]) + memory
    resource.setrlimit(resource.RLIMIT_DATA, (data, data))
    space = _bytes(sizes["VmSize"]) + memory + MAPPED
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if cpu_s is not None:
        _limit_processor(cpu_s)
    _confined = True


def why_it_ended(status: int, last_words: str) -> str:
    """Return why a confined process failed: its last message, or the limit that ended it.

    `status` is its exit status, negative for a signal. Code in C++ aborts where it gets no memory,
    or no memory for a thread, and says only that it does.
    """
    if status == -signal.SIGABRT:
        return TOO_MUCH_MEMORY
    return last_words if status > 0 and last_words else TOO_MUCH


def _limit_processor(seconds: float) -> None:
    def stop(*_: object) -> None:
        # The kernel repeats the signal every second, even while the reason is stored.
        signal.signal(signal.SIGXCPU, signal.SIG_IGN)
        raise TooSlow(f"reading the file takes more than {_duration(seconds)}; {_SMALLER}")

    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = math.ceil(used.ru_utime + used.ru_stime + seconds)
    signal.signal(signal.SIGXCPU, stop)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + KILLED_AFTER_S))


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:g} seconds of processor time"
    return f"{seconds / 60:.0f} minutes of processor time"


def is_confined() -> bool:
    """Return whether this process may decode uploaded files."""
    return _confined


def confined_environment() -> dict[str, str]:
    """Return environment variables for a process that will be confined.

    With them Arrow allocates memory only as it needs it.
    """
    return {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}


def _bytes(text: str) -> int:
    return int(text.split()[0]) * 1024
