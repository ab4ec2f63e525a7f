"""The trainer's Celery job.

Trainers are built in the pool child at the first job and stay until the process ends. Beat sends
the first job whether a run is live or not, and that job loads the libraries, so that a run that is
started later need not wait for them.
"""

from functools import cache
from typing import TYPE_CHECKING

from celery import shared_task
from celery.signals import worker_process_shutdown

from workers.processes import loading_libraries
from workers.time_slices import register_worker, run_slice
from workers.worker_description import describe_worker

if TYPE_CHECKING:
    from workers.trainer.loop import TrainerLoop

LIBRARIES = ("torch", "transformers", "trl")


@shared_task(name="train")
def train(**_: object) -> None:
    run_slice("train", trainer().serve)


@cache
def trainer() -> "TrainerLoop":
    from apps.runs.models import Worker

    with loading_libraries():
        from workers.trainer.loop import TrainerLoop  # loads torch: in the child only

    return TrainerLoop(register_worker(Worker.Role.TRAINER, **describe_worker(LIBRARIES)))


@worker_process_shutdown.connect
def _leave(**_: object) -> None:
    if trainer.cache_info().currsize:
        trainer().stop()
