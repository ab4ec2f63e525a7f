"""Taking from a worker what it holds: its leases end at once, and whatever it writes late is refused."""

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.rewards.models import RescoredGroup
from apps.rollouts.models import Group
from apps.runs.models import Run, Worker


@transaction.atomic
def quarantine(worker: Worker, by: User, reason: str = "") -> dict[str, int]:
    """Tell it to let go, and fence what it holds without waiting for it; how many groups, runs and rescored groups it held.

    Nothing has failed: the next worker takes each up with the attempts it had.
    """
    worker.tell(Worker.Order.QUARANTINE, by, reason)
    return {
        "groups": _fence(Group.objects.filter(state__in=Group.OPEN), worker),
        "runs": _fence(Run.objects.all(), worker),
        "groups scored again": _fence(RescoredGroup.objects.all(), worker),
    }


def _fence(rows: QuerySet, worker: Worker) -> int:
    held = rows.filter(Q(lease_owner=worker.key) & Q(lease_until__gte=Now()))
    return held.update(lease_owner="", lease_until=None, fence=F("fence") + 1)
