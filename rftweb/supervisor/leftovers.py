"""Find and end processes left by a dead supervisor, by a marker in their environment."""

import contextlib
import hashlib
import os
import signal
from pathlib import Path

MARKER = "RFTWEB_SUPERVISOR"


def marker_prefix(var: Path) -> str:
    """Return the prefix of the markers of this `var`.

    So one installation never touches another's processes.
    """
    return hashlib.sha256(os.fsencode(var)).hexdigest()[:12] + "-"


def find_marked_processes(prefix: str) -> set[int]:
    """Return the ids of live processes whose marker begins with `prefix`.

    Our own process and zombies are excluded.
    """
    marker = f"{MARKER}={prefix}".encode()
    pids = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile, or belongs to another user
            variables = (entry / "environ").read_bytes().split(b"\0")  # a zombie's is empty
            if any(variable.startswith(marker) for variable in variables):
                pids.add(int(entry.name))
    return pids - {os.getpid()}


def kill_processes(pids: set[int]) -> None:
    """Send SIGKILL to each process."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
