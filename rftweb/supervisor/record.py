"""The record `var/run/supervisor.json` of running processes, and the lock of one supervisor.

There is at most one supervisor per `var`.
"""

import fcntl
import json
import os
from pathlib import Path
from typing import TextIO


class AlreadyRunning(RuntimeError):
    """Another supervisor holds this `var`."""


def record_path(var: Path) -> Path:
    return var / "run" / "supervisor.json"


def read_record(var: Path) -> dict | None:
    """Return the record, or None if there has never been one, or a power failure has emptied it.

    `alive` tells whether its supervisor still runs.
    """
    try:
        record = json.loads(record_path(var).read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return {**record, "alive": is_locked(var)}


def write_record(var: Path, record: dict) -> None:
    """Replace the record atomically: readers see the old one or the new one."""
    path = record_path(var)
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(record, indent=1) + "\n")
    draft.replace(path)


def lock_record(var: Path) -> TextIO:
    """Take the lock for as long as the returned file is open. Raise AlreadyRunning."""
    path = var / "run" / "supervisor.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise AlreadyRunning(
            f"a supervisor already runs on {var}; `manage.py up --status` shows it"
        ) from None
    os.set_inheritable(file.fileno(), False)
    return file


def is_locked(var: Path) -> bool:
    try:
        lock_record(var).close()
    except AlreadyRunning:
        return True
    return False
