"""Memory use of a running guest, watched from outside.

The kernel's limits are for a process each, and count neither inodes nor page tables. A guest whose
processes together, or whose folder's inodes, take more than they may is stopped.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from apps.rewards.sandbox.limits import Limits

INTERVAL_S = 0.05  # between two looks
SLACK_MB = 64  # beside its memory: what an interpreter takes before it runs anything
COUNTED = ("RssAnon:", "RssShmem:", "VmPTE:", "VmSwap:")  # KiB of /proc/PID/status
TOO_MUCH_MEMORY = "out of memory"
TOO_MANY_FILES = "it made too many files"


def max_bytes(limits: Limits) -> int:
    """Return what all processes of a guest may take together."""
    return (limits.memory_mb + max(SLACK_MB, limits.memory_mb // 4)) << 20


class Usage:
    """Resource use of one guest: `pid` is its first process, which is ours and is not counted.

    `folder`: the one that it writes to.
    """

    def __init__(self, pid: int, limits: Limits, folder: str) -> None:
        self.pid = pid
        self.folder = f"/proc/{pid}/root{folder}"
        self.room = limits.space_mb << 20
        self.most_inodes = limits.inodes
        self.max_bytes = max_bytes(limits)

    def excess(self) -> str:
        """Return which limit it passes, "" for none."""
        if self._inodes() > self.most_inodes:
            return TOO_MANY_FILES
        if sum(map(_memory_of, self._processes())) > self.max_bytes:
            return TOO_MUCH_MEMORY
        return ""

    def _inodes(self) -> int:
        try:
            file_system = os.statvfs(self.folder)
        except OSError:  # it has ended, or its folders are not there yet
            return 0
        if file_system.f_blocks * file_system.f_frsize != self.room:
            return 0  # its folders are not there yet: this is the machine's own
        return file_system.f_files - file_system.f_ffree

    def _processes(self) -> Iterator[int]:
        waiting = _children_of(self.pid)
        while waiting:
            pid = waiting.pop()
            yield pid
            waiting += _children_of(pid)


def _children_of(pid: int) -> list[int]:
    """Return the processes that any thread of this one started."""
    pids: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            children = Path(f"/proc/{pid}/task/{thread}/children").read_text()
            pids += [int(child) for child in children.split()]
    except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        return pids
    return pids


def _memory_of(pid: int) -> int:
    """Return the bytes of memory that the process has to itself, page tables included."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(COUNTED))
