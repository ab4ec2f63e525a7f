"""The start of every pool child: it dies with its parent, and may start children of its own.

Imported by every Celery worker; nothing heavy is imported here, since this also runs in the parent.
"""

import ctypes
import gc
import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from celery.signals import task_prerun, worker_process_init, worker_process_shutdown
from django.db import close_old_connections

from apps.runs import log_keeper

PR_SET_PDEATHSIG = 1
# Set before any heavy import in the child: no telemetry, no hub, no second tokenizer pool after the
# fork.
QUIET = {
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}


@worker_process_init.connect
def prepare_child_process(**_: object) -> None:
    die_with_parent(os.getppid())
    allow_children()
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    log_keeper.begin_keeping("worker")


@task_prerun.connect
def renew_connections(**_: object) -> None:
    """Close the thread's database connection if it is too old or broken; the job opens another."""
    close_old_connections()


@worker_process_shutdown.connect
def say_the_last(**_: object) -> None:
    log_keeper.finish_keeping()


@contextmanager
def loading_libraries() -> Iterator[None]:
    """Load without collections of garbage, and keep what was loaded out of all later ones.

    A full collection looks through all objects of torch, transformers and TRL, which takes a third
    of a second; accelerate asks for one at the start of every trainer.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; exit if it already has."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent or parent == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def allow_children() -> None:
    """Let this daemonic pool child start processes, as vLLM's engine does.

    Billiard marks the child as daemonic in the standard library's own process object, which then
    refuses children, and hands it an authentication key of billiard's class, which the standard
    library will not pickle. Both are in a private dictionary, which the stubs lack;
    tests/workers/test_processes.py checks that this still works.
    """
    inherited = vars(multiprocessing.current_process())["_config"]
    inherited["daemon"] = False
    key_class = vars(multiprocessing.process)["AuthenticationString"]
    inherited["authkey"] = key_class(bytes(inherited["authkey"]))
