"""Bound the memory and processor time of this process before it decodes what people sent."""

import math
import os
import resource
import signal
from pathlib import Path

MEMORY = 1024 * 1024 * 1024  # bytes beyond what the process has when it is confined
MAPPED = 4 * 1000 * 1000 * 1000  # bytes of files that may be mapped besides, as Arrow files are
CPU_S = 30 * 60  # processor seconds for one file
KILLED_AFTER_S = 30  # beyond the limit, for a decoder that lets no Python code run
_SMALLER = "make it smaller, or store its rows plainly"
_MUCH_MEMORY = f"reading it takes more than {MEMORY // 1024**2} MB of memory"
TOO_MUCH_MEMORY = f"{_MUCH_MEMORY}; {_SMALLER}"
# For a process that the kernel killed, which cannot say at which limit
TOO_MUCH = f"{_MUCH_MEMORY} or {CPU_S // 60} minutes of processor time; {_SMALLER}"
_confined = False
_serves = False


class DecodesNothing(RuntimeError):
    """A web process was about to decode a file that somebody sent. That is a fault of ours."""


class TooSlow(Exception):
    """Reading took the processor time that this process is allowed; the message says how much.

    Not a ValueError: readers turn those into bad lines and go on.
    """


def serve() -> None:
    """Say that this process answers requests: from now on it decodes no tables and archives.

    Called when a server starts its application, and not when the application is merely imported.
    """
    global _serves
    _serves = True


def require_decoder() -> None:
    """Raise DecodesNothing in a web process."""
    if _serves:
        raise DecodesNothing("files of people are decoded by workers and by confined children")


def confine(memory: int = MEMORY, cpu_s: float | None = CPU_S) -> None:
    """Allow this process so many more bytes, and so many processor seconds unless None is given.

    What asks for more memory gets a MemoryError, or the process ends. What takes more time gets
    TooSlow in the main thread, or is killed if it does not return to Python for some more seconds.
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


def _limit_processor(seconds: float) -> None:
    def stop(*_: object) -> None:
        # The kernel repeats the signal every second, also while the reason is stored.
        signal.signal(signal.SIGXCPU, signal.SIG_IGN)
        raise TooSlow(f"reading it takes more than {_duration(seconds)}; {_SMALLER}")

    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = math.ceil(used.ru_utime + used.ru_stime + seconds)
    signal.signal(signal.SIGXCPU, stop)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + KILLED_AFTER_S))


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:g} seconds of processor time"
    return f"{seconds / 60:.0f} minutes of processor time"


def is_confined() -> bool:
    """Return whether this process may decode files of people."""
    return _confined


def environment() -> dict[str, str]:
    """Return environment variables for a process that will be confined: Arrow then takes memory as it needs it."""
    return {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}


def _bytes(said: str) -> int:
    return int(said.split()[0]) * 1024
