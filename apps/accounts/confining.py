"""Bound the memory of this process before it decodes what people sent."""

import os
import resource
from pathlib import Path

MEMORY = 1024 * 1024 * 1024  # bytes beyond what the process has when it is confined
MAPPED = 4 * 1000 * 1000 * 1000  # bytes of files that may be mapped besides, as Arrow files are
TOO_MUCH = f"reading it takes more than {MEMORY // 1024**2} MB of memory; make it smaller, or store its rows plainly"
_confined = False
_serves = False


class DecodesNothing(RuntimeError):
    """A web process was about to decode a file that somebody sent. That is a fault of ours."""


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


def confine(memory: int = MEMORY) -> None:
    """Allow this process so many more bytes. What asks for more gets a MemoryError, or the process ends."""
    global _confined
    sizes = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    data = _bytes(sizes["VmData"]) + memory
    resource.setrlimit(resource.RLIMIT_DATA, (data, data))
    space = _bytes(sizes["VmSize"]) + memory + MAPPED
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _confined = True


def is_confined() -> bool:
    """Return whether this process may decode files of people."""
    return _confined


def environment() -> dict[str, str]:
    """Return environment variables for a process that will be confined: Arrow then takes memory as it needs it."""
    return {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}


def _bytes(said: str) -> int:
    return int(said.split()[0]) * 1024
