"""Ties a child process to its parent: when the parent dies, however it dies, so does the child."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def die_with_parent(with_signal: signal.Signals = signal.SIGKILL, parent: int | None = None) -> Callable[[], None]:
    """A `preexec_fn` that makes the kernel send `with_signal` to the child when the thread that forked it ends.

    It must run after any change of user, which clears the setting; `subprocess` does so. Start children from a
    thread that lives as long as they should. Elsewhere than on Linux it does nothing.
    `parent`: its process id, for a child that calls the function itself; otherwise this process is the parent.
    """
    parent = parent or os.getpid()

    def tie() -> None:
        if _libc is None:
            return
        _libc.prctl(PR_SET_PDEATHSIG, int(with_signal), 0, 0, 0)
        if os.getppid() != parent:  # the parent died between fork and prctl
            os.kill(os.getpid(), signal.SIGKILL)

    return tie
