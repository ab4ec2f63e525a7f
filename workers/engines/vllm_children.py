"""What every process that vLLM starts does first: die with the process that started it.

A killed parent would leave engine and worker processes behind, with the GPU's memory in their hands. vLLM calls
`die_with_parent` in each process through its plugin group `vllm.general_plugins`; the folder `entry_points` beside
this file announces it, to whoever has that folder on its path. That is after imports and before weights: an engine
process whose parent is killed within the first seconds waits for it five minutes, with nothing on the GPU, and ends.
"""

import ctypes
import multiprocessing
import os
import signal

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """In a child of multiprocessing: be killed when the parent ends, and at once if it already has. Elsewhere: nothing.

    The kernel sends the signal when the parent's starting thread ends, so an engine must be started from a thread
    that stays. The setting does not survive a fork; every level sets its own.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent.pid:
        os.kill(os.getpid(), signal.SIGKILL)
