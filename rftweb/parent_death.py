"""Bind a child process to its parent: when the parent dies in any way, so does the child."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def make_die_with_parent(
    with_signal: signal.Signals = signal.SIGKILL, parent: int | None = None
) -> Callable[[], None]:
    """Return a `preexec_fn` that makes the kernel signal the child when its parent dies.

    The parent is the thread that forked it, so start children from a thread that lives as long as
    they should. The function must run after any change of user, which clears the setting;
    `subprocess` does so. On systems other than Linux it does nothing. `parent` is the parent's
    process id, for a child that calls the function itself; by default it is this process.
    """
    parent = parent or os.getpid()

    def tie() -> None:
        if _libc is None:
            return
        _libc.prctl(PR_SET_PDEATHSIG, int(with_signal), 0, 0, 0)
        if os.getppid() != parent:  # the parent died between fork and prctl
            os.kill(os.getpid(), signal.SIGKILL)

    return tie
