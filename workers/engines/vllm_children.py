"""Plugin that makes every process started by vLLM die with its parent.

A killed parent would leave engine and worker processes behind, which still hold GPU memory. vLLM
calls `end_with_parent` in each process through its plugin group `vllm.general_plugins`; the folder
`entry_points` beside this file announces the plugin to every process that has the folder on its
path. The call comes after imports and before weights are loaded. An engine process whose parent is
killed before that call waits five minutes for the parent, with nothing on the GPU, and then ends.
"""

import ctypes
import multiprocessing
import os
import signal

PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Ask the kernel to kill this child process of multiprocessing when its parent ends.

    The child is killed at once if the parent has already ended. In any other process, the call does
    nothing.

    The kernel sends the signal when the thread that started the child ends, so an engine must be
    started from a permanent thread. The setting does not survive a fork; every child sets its own.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent.pid:
        os.kill(os.getpid(), signal.SIGKILL)
