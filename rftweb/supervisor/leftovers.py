"""Finds and ends processes that a supervisor's children left behind, by a marker in their environment."""

import contextlib
import hashlib
import os
import signal
from pathlib import Path

MARKER = "RFTWEB_SUPERVISOR"


def marker_prefix(var: Path) -> str:
    """What the markers of all supervisors of this `var` begin with: one installation never touches another's."""
    return hashlib.sha256(os.fsencode(var)).hexdigest()[:12] + "-"


def marked(prefix: str) -> set[int]:
    """Ids of the living processes whose marker begins with `prefix`. Never our own, never a zombie."""
    wanted = f"{MARKER}={prefix}".encode()
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended meanwhile, or another user's
            variables = (entry / "environ").read_bytes().split(b"\0")  # a zombie's is empty
            if any(variable.startswith(wanted) for variable in variables):
                found.add(int(entry.name))
    return found - {os.getpid()}


def end(pids: set[int]) -> None:
    """SIGKILL to each."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
