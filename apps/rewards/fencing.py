"""Revocation of a worker's leases: late writes of the worker are refused."""

from django.db import transaction

from apps.accounts.models import User
from apps.rewards.models import RegressionCheck, RescoredGroup, Trial
from apps.rollouts.models import ChatTurn, Group
from apps.runs.models import Run, Worker


@transaction.atomic
def quarantine(worker: Worker, by: User, reason: str = "") -> dict[str, int]:
    """Order the worker to let go, and fence what it holds without waiting for it.

    Return how many groups, runs and rescored groups it held. This is no failure: the next worker
    takes each of them with the attempts that it had.
    """
    worker.tell(Worker.Order.QUARANTINE, by, reason)
    return {
        "groups": Group.objects.revoke(worker.key),
        "runs": Run.objects.revoke(worker.key),
        "answers in chats": ChatTurn.objects.revoke(worker.key),
        "groups scored again": RescoredGroup.objects.revoke(worker.key),
        "trials": Trial.objects.revoke(worker.key),
        "regression checks": RegressionCheck.objects.revoke(worker.key),
    }
