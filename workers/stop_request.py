"""The stop request of this worker, which long work checks so that it can end early.

Celery's parent process receives the signal, waits for the jobs that its pool child runs, and does
not tell the child. So the parent sets a byte in memory that both share.
"""

import mmap

from celery.signals import worker_shutting_down

_flag = mmap.mmap(-1, 1)  # anonymous and shared: the pool child inherits it when it is forked


@worker_shutting_down.connect
def request_stop(**_: object) -> None:
    """Request the stop. Runs in the parent process, for SIGTERM and SIGQUIT alike."""
    _flag[0] = 1


def is_asked() -> bool:
    return _flag[0] == 1


def forget_stop() -> None:
    """Undo `request_stop`: for tests, in which one process plays several workers."""
    _flag[0] = 0
