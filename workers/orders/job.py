"""The job that has orders filled, in a process of their own while any is due."""

from celery import shared_task

from apps.runs.models import WeightOrder
from workers.on_demand import OnDemand

filler = OnDemand("workers.orders", job="fill_orders")


@shared_task(name="fill_orders")
def take_up(**_: object) -> None:
    """Idempotent: two workers take different orders. The process dies with its worker; what it
    held is taken up again.
    """
    if not filler.is_running and WeightOrder.objects.due().exists():
        filler.start()
