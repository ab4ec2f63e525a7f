"""Which runs: those somebody may see or steer, those that are at work."""

from django.db import models
from django.db.models import Q

from apps.accounts.models import Project, User
from apps.runs.algorithms.snapshot import SOURCES
from apps.tasksets.models import Taskset


class RunQuerySet(models.QuerySet):
    def visible_to(self, user: User) -> "RunQuerySet":
        return self.filter(project__in=Project.objects.visible_to(user))

    def steered_by(self, user: User) -> "RunQuerySet":
        return self.filter(project__in=Project.objects.run_by(user))

    def drawing_from(self, taskset: Taskset) -> "RunQuerySet":
        """Alone, or beside others."""
        return self.filter(Q(taskset=taskset) | Q(pk__in=taskset.shares.values("run")))

    def with_tasksets(self) -> "RunQuerySet":
        return self.select_related("taskset").prefetch_related("shares__taskset")

    def running(self) -> "RunQuerySet":
        return self.filter(state=self.model.State.RUNNING)

    def training(self) -> "RunQuerySet":
        """Running, and to be learned from: not evaluations."""
        return self.running().filter(is_evaluation=False)

    def exploring(self) -> "RunQuerySet":
        """Running, and asking their own policy: to learn from what it samples, or to evaluate it."""
        own = self.running().exclude(config__algorithm__name__in=list(SOURCES))
        return own.filter(Q(config__replay=None) | Q(config__replay__isnull=True))
