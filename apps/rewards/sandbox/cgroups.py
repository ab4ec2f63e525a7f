"""Limit everything that a guest uses, kernel memory included, by its own control group (cgroup v2).

This needs a part of the hierarchy that is delegated to this process, with the memory and pids
controllers: systemd's `Delegate=` with `DelegateSubgroup=`, or a container that starts us in a
subgroup. Without it, usage.py watches the guest from outside.
"""

import contextlib
import functools
import itertools
import os
import re
import select
from dataclasses import dataclass
from pathlib import Path

from apps.rewards.sandbox.limits import Limits
from apps.rewards.sandbox.usage import TOO_MUCH_MEMORY, max_bytes

CONTROLLERS = ("memory", "pids")
OWN_PROCESSES = 4  # of bubblewrap and prlimit, beside the guest's
END_S = 5.0  # that the kernel may take to end a group's processes
NAME = re.compile(r"guest-(?P<pid>\d+)-\d+")
DELEGATED = ("trusted.delegate", "user.delegate")  # how systemd marks what it delegates
_numbers = itertools.count()


@dataclass(frozen=True)
class Delegation:
    """Cgroup in which guests get groups of their own, or why there is none."""

    folder: Path | None
    why_not: str = ""

    @property
    def description(self) -> str:
        """Describe in a few words what bounds the memory and processes of guests."""
        if self.folder is not None:
            return "limits by cgroup v2"
        return f"limits are enforced by rlimits, tmpfs and polling ({self.why_not})"


@functools.cache
def delegation(process: Path = Path("/proc/self")) -> Delegation:
    """Find a delegated group: the one that this process is in, or the one above it."""
    mount = _mount_point(process)
    if mount is None:
        return Delegation(None, "no cgroup v2 is mounted")
    group = _own_group(process, mount)
    reasons = []
    for folder in dict.fromkeys((group if group == mount else group.parent, group)):
        if not (reason := _why_not(folder, mount)):
            _remove_leftovers(folder)
            return Delegation(folder)
        reasons.append(reason)
    return Delegation(None, reasons[-1])


def _mount_point(process: Path) -> Path | None:
    """Return where the whole hierarchy that we see is mounted."""
    for line in (process / "mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        root, point = before.split()[3:5]
        if root == "/" and after.split()[0] == "cgroup2":
            return Path(point)
    return None


def _own_group(process: Path, mount: Path) -> Path:
    for line in (process / "cgroup").read_text().splitlines():
        if line.startswith("0::/") and ".." not in line:
            return mount / line.removeprefix("0::/")
    return mount


def _why_not(folder: Path, mount: Path) -> str:
    """Return why guests cannot get groups in this one, "" if they can."""
    try:
        available = (folder / "cgroup.controllers").read_text().split()
        if missing := [name for name in CONTROLLERS if name not in available]:
            return f"cgroup v2 does not control {' and '.join(missing)} here"
        if folder != mount and not _is_delegated(folder):
            return "no cgroup v2 is delegated to this process"
        enabled = (folder / "cgroup.subtree_control").read_text().split()
        if missing_controllers := [f"+{name}" for name in CONTROLLERS if name not in enabled]:
            (folder / "cgroup.subtree_control").write_text(" ".join(missing_controllers))
        trial = folder / f"guest-{os.getpid()}-{next(_numbers)}"
        trial.mkdir()
        trial.rmdir()
    except OSError as error:
        return f"the cgroup v2 cannot be used: {error.strerror or 'it cannot be read'}"
    return ""


def _is_delegated(folder: Path) -> bool:
    if os.geteuid() and folder.stat().st_uid == os.geteuid():
        return True
    for name in DELEGATED:
        with contextlib.suppress(OSError):
            return os.getxattr(folder, name) == b"1"
    return False


def _remove_leftovers(folder: Path) -> None:
    """Remove empty groups of processes that were killed."""
    for group in folder.glob("guest-*"):
        match = NAME.fullmatch(group.name)
        if match and not Path(f"/proc/{match['pid']}").exists():
            with contextlib.suppress(OSError):
                group.rmdir()


class Group:
    """Cgroup of one guest: joined before its program begins, and removed at the end."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self.folder = folder / f"guest-{os.getpid()}-{next(_numbers)}"
        self.folder.mkdir()
        try:
            for name, value in _values(limits).items():
                if name.partition(".")[0] in CONTROLLERS:
                    (self.folder / name).write_text(value)
        except OSError:
            self.folder.rmdir()
            raise

    def take(self, pid: int) -> None:
        """Move a process into the group. Raises OSError."""
        (self.folder / "cgroup.procs").write_text(str(pid))

    def excess(self) -> str:
        """Return which limit the guest was ended for, "" for none."""
        if "memory" not in CONTROLLERS:
            return ""
        events = (self.folder / "memory.events").read_text().splitlines()
        killed = any(line.startswith("oom_kill ") and line != "oom_kill 0" for line in events)
        return TOO_MUCH_MEMORY if killed else ""

    def remove(self) -> None:
        """Kill remaining processes of the group. Raises OSError if they do not end in time."""
        (self.folder / "cgroup.kill").write_text("1")
        with (self.folder / "cgroup.events").open() as events:
            changes = select.poll()
            changes.register(events, select.POLLPRI)
            while "populated 1" in events.read():
                if not changes.poll(END_S * 1000):
                    break
                events.seek(0)
        self.folder.rmdir()


def _values(limits: Limits) -> dict[str, str]:
    return {
        "memory.max": str(max_bytes(limits)),
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "pids.max": str(limits.threads + limits.processes + OWN_PROCESSES),
    }
