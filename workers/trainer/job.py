"""The trainer's Celery job. Trainers are built in the pool child at the first job and stay until the process ends.

The first job, which beat rings whether a run is live or not, loads the libraries: a run that is started later need not wait.
"""

from functools import cache

from celery import shared_task
from celery.signals import worker_process_shutdown

from workers.described import described
from workers.slices import register, run_slice

LIBRARIES = ("torch", "transformers", "trl")


@shared_task(name="train")
def train(**_: object) -> None:
    run_slice("train", trainer().serve)


@cache
def trainer():
    from apps.runs.models import Worker
    from workers.trainer.station import Trainer  # loads torch: in the child only

    return Trainer(register(Worker.Role.TRAINER, **described(LIBRARIES)))


@worker_process_shutdown.connect
def _leave(**_: object) -> None:
    if trainer.cache_info().currsize:
        trainer().stop()
