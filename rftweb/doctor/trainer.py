"""Runs whose trainer has several processes: where these meet, and whether there is room for
them.
"""

import os
import socket
import subprocess
from collections.abc import Iterator

from django.conf import settings
from django.db.utils import OperationalError

from apps.runs.models import Run
from rftweb.doctor.finding import Finding, failed_finding, ok, warn

SUBJECT = "trainer"


def check_trainer_processes() -> Iterator[Finding]:
    """Check the GPUs and the rendezvous of trainers with several processes, if there are any."""
    local_ranks = settings.TRAINER_RANKS_HERE
    if settings.TRAINER_RENDEZVOUS:
        yield _meeting(settings.TRAINER_RENDEZVOUS, local_ranks)
    try:
        several = list(Run.objects.training().filter(config__trainer__processes__gt=1))
    except OperationalError:
        return  # another check says so
    places = _gpus() or os.cpu_count() or 1
    for run in several:
        trainer = run.settings.trainer
        local = min(trainer.processes, local_ranks or trainer.processes)
        words = f"run {run.slug}: {trainer.words}"
        if local > places:
            mend = "lower trainer.processes, or start some on other machines (docs/deploy.md)"
            yield warn(
                SUBJECT, f"{words}, {local} of them on a machine with {places} devices", mend
            )
        else:
            yield ok(SUBJECT, words)


def _meeting(rendezvous: str, local_ranks: int | None) -> Finding:
    host = rendezvous.rpartition(":")[0]
    try:
        socket.getaddrinfo(host, None)
    except OSError as error:
        mend = "set RFTWEB_TRAINER_RENDEZVOUS to a name or IP address of the trainer's machine"
        return failed_finding(SUBJECT, f"cannot resolve {rendezvous}: {error.strerror}", mend)
    return ok(SUBJECT, f"starts {local_ranks} of a run's processes; others join at {rendezvous}")


def _gpus() -> int:
    """Return how many GPUs the driver lists; 0 without a driver."""
    command = ["nvidia-smi", "--list-gpus"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return 0
    return len(process.stdout.splitlines()) if process.returncode == 0 else 0
