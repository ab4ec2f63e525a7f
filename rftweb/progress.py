"""Whether a starting process makes progress: it uses the processor, or writes lines.

A start takes as long as the machine is busy, so a process is not given up for being slow, only for
making no progress.
"""

import time
from collections.abc import Callable

import psutil

STALL_S = 120.0  # without any progress: the start hangs
SAMPLE_S = 1.0
STEP_CPU_S = 0.25  # less processor time than this counts as idle


class Progress:
    """A watch over one process and its children; `lines` returns the lines it has written."""

    def __init__(self, pid: int, lines: Callable[[], int], stall_s: float = STALL_S) -> None:
        self.pid = pid
        self.steps = 0
        self.cpu_s = 0.0
        self.stall_s = stall_s
        self._lines = lines
        self._seen = (0.0, lines())
        self._moved_at = time.monotonic()
        self._sampled_at = 0.0

    def look(self) -> bool:
        """Sample at most once a second; return whether there was progress since the last time."""
        now = time.monotonic()
        if now - self._sampled_at < SAMPLE_S:
            return False
        self._sampled_at = now
        self.cpu_s = max(self.cpu_s, tree_cpu_seconds(self.pid))
        lines = self._lines()
        if self.cpu_s - self._seen[0] < STEP_CPU_S and lines == self._seen[1]:
            return False
        self._seen = (self.cpu_s, lines)
        self._moved_at = now
        self.steps += 1
        return True

    @property
    def has_stalled(self) -> bool:
        return time.monotonic() - self._moved_at > self.stall_s


def tree_cpu_seconds(pid: int) -> float:
    """Return the processor time that a process and its descendants have used; 0 when it is gone."""
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.Error:
        return 0.0
    return sum(_own_cpu_seconds(member) for member in family)


def _own_cpu_seconds(process: psutil.Process) -> float:
    """Return the processor time including children that have ended and were waited for."""
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return times.user + times.system + times.children_user + times.children_system
