"""The job that has orders filled: it sees to it that one process of this worker does so while any is due."""

import subprocess
import sys

from celery import shared_task
from django.conf import settings

from apps.runs.models import WeightOrder

_filling: subprocess.Popen | None = None


@shared_task(name="fill_orders")
def take_up(**_: object) -> None:
    """Idempotent; two workers take different orders. The process dies with us, and what it held is taken up again."""
    global _filling
    if (_filling is None or _filling.poll() is not None) and WeightOrder.objects.due().exists():
        _filling = subprocess.Popen([sys.executable, "-m", "workers.orders"], cwd=settings.BASE_DIR)
