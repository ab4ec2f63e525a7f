"""A process that serves runs, as it tells of itself, and what it was told to do."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db import models, transaction
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.models import AuditEntry, User
from apps.accounts.public_text import ReasonField

# Of a claim in SQL: that its owner was not told to take nothing. One look at an index, before any row is looked at.
MAY_TAKE = """NOT EXISTS (SELECT FROM runs_worker w WHERE w.key = %(owner)s AND w."order" <> '')"""


SWEEP_LATE_S = 60.0  # a sweep is due every five seconds


class WorkerQuerySet(models.QuerySet):
    def told_to_take_nothing(self, key: str) -> "WorkerQuerySet":
        """The worker of this key, where it was told so."""
        return self.filter(key=key).exclude(order=Worker.Order.SERVE)


class OfRuns(models.Manager.from_queryset(WorkerQuerySet)):
    """Those that serve runs: who asks which explorers are here, or who may take work, means no web process."""

    def get_queryset(self) -> WorkerQuerySet:
        return super().get_queryset().filter(role__in=Worker.OF_RUNS)


class Worker(models.Model):
    """A process of the installation: what it is, what it does now, when it last said so.

    Most serve runs. Web processes, beat and control workers hold nothing of a run, and take no orders.
    """

    class Role(models.TextChoices):
        EXPLORER = "explorer"
        SCORER = "scorer"
        REFINER = "refiner"
        TRAINER = "trainer"
        CONTROL = "control"
        WEB = "web"
        BEAT = "beat"

    OF_CONTROL = (Role.CONTROL, Role.BEAT)
    OF_RUNS = (Role.EXPLORER, Role.SCORER, Role.REFINER, Role.TRAINER)

    class Order(models.TextChoices):
        """What it was told: to serve, to finish what it has and take nothing new, or to let go of everything at once."""

        SERVE = "", "serve"
        DRAIN = "drain"
        QUARANTINE = "quarantine"

    key = models.CharField(max_length=80, unique=True, help_text="role@host:pid:start, the lease owner's name.")
    role = models.CharField(max_length=10, choices=Role.choices)
    host = models.CharField(max_length=100)
    pid = models.PositiveIntegerField()
    device = models.CharField(max_length=100, blank=True)
    engine = models.CharField(max_length=50, blank=True)
    details = models.JSONField(default=dict, help_text="Versions of code and libraries, and why this engine was chosen.")
    doing = models.CharField(max_length=200, blank=True)
    for_runs = models.JSONField(
        default=dict, db_default={}, help_text="What it does for which run, in words, by the run's id; empty where it serves all."
    )
    figures = models.JSONField(
        default=dict, db_default={}, help_text="Memory, processor and GPU as sampled with its last heartbeat (apps.runs.footprint)."
    )
    started_at = models.DateTimeField(auto_now_add=True)
    heartbeat_at = models.DateTimeField(auto_now_add=True)
    stopped_at = models.DateTimeField(null=True)
    stopped_reason = ReasonField(max_length=200, blank=True, db_default="", default="")
    swept_at = models.DateTimeField(null=True, help_text="Of beat and control: when a sweep was last done.")

    order = models.CharField(max_length=10, choices=Order.choices, blank=True, db_default="", default=Order.SERVE)
    order_reason = models.CharField(max_length=300, blank=True, db_default="", default="")
    ordered_by = models.CharField(max_length=150, blank=True, db_default="", default="")
    ordered_at = models.DateTimeField(null=True)

    every = WorkerQuerySet.as_manager()  # first, so that the administration shows them
    objects = OfRuns()

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="only_workers_of_runs_take_orders",
                condition=~models.Q(role__in=["web", "beat", "control"]) | models.Q(order=""),
            )
        ]
        # The page of workers: those that are here, and by key those that were.
        indexes = [models.Index(fields=["role", "-id"], name="workers_that_are_here", condition=models.Q(stopped_at=None))]

    def __str__(self) -> str:
        return self.key

    @property
    def is_of_runs(self) -> bool:
        """Whether it takes work of runs, and so orders to take none."""
        return self.role in self.OF_RUNS

    @property
    def takes_nothing(self) -> bool:
        """Whether it was told to; as of its last heartbeat in the worker itself."""
        return self.order != self.Order.SERVE

    @property
    def is_silent(self) -> bool:
        """Whether its leases are over by now, as it has not spoken for so long."""
        return (timezone.now() - self.heartbeat_at).total_seconds() > settings.LEASE_SECONDS

    @property
    def sweep_is_late(self) -> bool:
        """Of beat and control: whether no sweep was done for so long that somebody should look."""
        since = self.swept_at or self.started_at
        return self.role in self.OF_CONTROL and (timezone.now() - since).total_seconds() > SWEEP_LATE_S

    @property
    def standing(self) -> str:
        """stopped, dead, silent, quarantined, draining or alive: one word for all that its row tells."""
        if self.stopped_at is not None:
            return "dead" if self.stopped_reason.startswith("silent") else "stopped"
        if self.is_silent:
            return "silent"
        return {self.Order.QUARANTINE: "quarantined", self.Order.DRAIN: "draining"}.get(self.order, "alive")

    def beat(self, doing: str | None = None, for_runs: Mapping[int, str] | None = None, **figures: Any) -> None:
        """Say that it is here. What is not given stays as it was said last."""
        said: dict[str, Any] = {} if doing is None else {"doing": doing[:200], "for_runs": for_runs or {}}
        if figures:
            said["figures"] = figures
        Worker.every.filter(pk=self.pk).update(heartbeat_at=Now(), stopped_at=None, stopped_reason="", **said)

    def hear(self) -> None:
        """Take up what it was told meanwhile; whose row is gone serves on."""
        self.order = Worker.every.filter(pk=self.pk).values_list("order", flat=True).first() or self.Order.SERVE

    def stop(self) -> None:
        gone = {"stopped_reason": "it was stopped", "doing": "", "for_runs": {}}
        Worker.every.filter(pk=self.pk).update(stopped_at=Now(), **gone)

    @transaction.atomic
    def tell(self, order: str, by: User, reason: str = "") -> None:
        """Order it; it hears within its next heartbeat. To fence what it holds is its caller's (apps.rewards.fencing)."""
        said = {"order": order, "order_reason": reason[:300], "ordered_by": by.username, "ordered_at": Now()}
        Worker.every.filter(pk=self.pk).update(**said)
        self.refresh_from_db()
        act = {self.Order.SERVE: "put back", self.Order.DRAIN: "drained", self.Order.QUARANTINE: "quarantined"}[self.Order(order)]
        AuditEntry.record(f"worker {act}", f"worker {self.key}", by, reason=reason)
