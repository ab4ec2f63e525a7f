"""Selections of runs: those that a user may see or steer, those at work, and one to be locked."""

from collections.abc import Callable
from functools import cache
from typing import Any

from django.apps import apps
from django.db import models
from django.db.models import Q

from apps.accounts.compiled_queries import compiled_query
from apps.accounts.locking import rows_to_lock
from apps.accounts.models import Project, User
from apps.leases.lease import Claim, WorkerLeaseQuerySet
from apps.runs.algorithms.snapshot import SOURCES
from apps.tasksets.models import Taskset


class RunState(models.TextChoices):
    CREATED = "created", "not started"
    RUNNING = "running", "running"
    PAUSED = "paused", "paused"
    STOPPED = "stopped", "stopped"
    COMPLETED = "completed", "completed"
    DELETING = "deleting", "being deleted"


class RunQuerySet(WorkerLeaseQuerySet[Any]):  # of Run, whose file imports this one
    def kept(self) -> "RunQuerySet":
        """Leave out runs that are being deleted: half of what they had may be gone."""
        return self.exclude(state=RunState.DELETING)

    def visible_to(self, user: User) -> "RunQuerySet":
        return self.kept().filter(project__in=Project.objects.visible_to(user))

    def steered_by(self, user: User) -> "RunQuerySet":
        return self.kept().filter(project__in=Project.objects.run_by(user))

    def owned_by(self, user: User) -> "RunQuerySet":
        """Select the runs that the user may delete: those of projects that they own."""
        return self.kept().filter(project__in=Project.objects.owned_by(user))

    def drawing_from(self, taskset: Taskset) -> "RunQuerySet":
        """Select the runs that sample from this taskset, alone or beside others."""
        return self.filter(Q(taskset=taskset) | Q(pk__in=taskset.shares.values("run")))

    def with_tasksets(self) -> "RunQuerySet":
        return self.select_related("taskset").prefetch_related("shares__taskset")

    def running(self) -> "RunQuerySet":
        return self.filter(state=RunState.RUNNING)

    def training(self) -> "RunQuerySet":
        """Select running runs that are trained, without evaluations."""
        return self.running().filter(is_evaluation=False)

    def exploring(self) -> "RunQuerySet":
        """Select running runs that sample from their own policy, to train or to evaluate it."""
        sampling = self.running().exclude(config__algorithm__name__in=list(SOURCES))
        return sampling.filter(Q(config__replay=None) | Q(config__replay__isnull=True))


def _all_runs() -> Any:
    """Return a query of all runs: their file imports this one."""
    return RunQuerySet(apps.get_model("runs", "Run"))


@compiled_query
def lock_under_fence(pk: int, fence: int) -> models.QuerySet[Any]:
    """Lock the run, if the trainer's fence still holds; with its topic, which is not locked."""
    return rows_to_lock(_all_runs().held([Claim(pk, fence)]).select_related("topic"))


@cache
def lock_run(related: tuple[str, ...]) -> Callable[[int], list[Any]]:
    """Return the query that locks a run by its id; with these related rows, not locked."""

    def locked(pk: int) -> models.QuerySet[Any]:
        return rows_to_lock(_all_runs().filter(pk=pk).select_related(*related))

    return compiled_query(locked)
