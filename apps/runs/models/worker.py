"""Model of a process that serves runs: its heartbeat, and orders to it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import connection, models, transaction
from django.db.models.functions import Now
from django.utils import timezone
from psycopg.types.json import Jsonb

from apps.accounts.models import AuditEntry, User
from apps.accounts.public_text import ReasonField

HEARTBEAT = """
    UPDATE runs_worker
    SET heartbeat_at = statement_timestamp(), stopped_at = NULL, stopped_reason = ''{}
    WHERE id = %s
    RETURNING "order"
    """
SWEEP_LATE_S = 60.0  # a sweep is due every five seconds


class WorkerQuerySet(models.QuerySet["Worker"]):
    def told_to_take_nothing(self, key: str) -> "WorkerQuerySet":
        """Select the worker of this key if it is ordered to take nothing."""
        return self.filter(key=key).exclude(order=Worker.Order.SERVE)


_WorkerManager = models.Manager.from_queryset(WorkerQuerySet)


class OfRuns(_WorkerManager["Worker"]):
    """Manager of the workers that serve runs; web processes are left out.

    Questions such as which explorers are running, or who may take work, never mean a web process.
    """

    def get_queryset(self) -> WorkerQuerySet:
        return WorkerQuerySet(Worker, using=self._db).filter(role__in=Worker.OF_RUNS)


class Worker(models.Model):
    """A process of the installation: its role, its current work, and its last heartbeat.

    Most workers serve runs. Web processes, beat and control workers hold no part of a run and take
    no orders.
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
        """Order to a worker: serve, drain (take nothing new), or give everything up at once."""

        SERVE = "", "serve"
        DRAIN = "drain"
        QUARANTINE = "quarantine"

    key = models.CharField(
        max_length=80,
        unique=True,
        help_text="role@host:pid:start; also the name of the lease owner.",
    )
    role = models.CharField(max_length=10, choices=Role.choices)
    host = models.CharField(max_length=100)
    pid = models.PositiveIntegerField()
    device = models.CharField(max_length=100, blank=True)
    engine = models.CharField(max_length=50, blank=True)
    details = models.JSONField(
        default=dict, help_text="Versions of code and libraries, and why the engine was chosen."
    )
    doing = models.CharField(max_length=200, blank=True)
    for_runs = models.JSONField(
        default=dict,
        db_default={},
        help_text="Current activity by run ID; empty if the worker serves all runs.",
    )
    metrics = models.JSONField(
        default=dict,
        db_default={},
        help_text="Memory, CPU and GPU use at the last heartbeat (apps.runs.resource_usage).",
    )
    started_at = models.DateTimeField(auto_now_add=True)
    heartbeat_at = models.DateTimeField(auto_now_add=True)
    stopped_at = models.DateTimeField(null=True)
    stopped_reason = ReasonField(max_length=200, blank=True, db_default="", default="")
    swept_at = models.DateTimeField(
        null=True, help_text="For beat and control: time of the last sweep."
    )

    order = models.CharField(
        max_length=10, choices=Order.choices, blank=True, db_default="", default=Order.SERVE
    )
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
        indexes = [
            models.Index(
                fields=["role", "-id"],
                name="workers_that_are_here",
                condition=models.Q(stopped_at=None),
            )
        ]

    def __str__(self) -> str:
        return self.key

    @property
    def is_of_runs(self) -> bool:
        """Tell whether it takes work of runs, and so orders to take none."""
        return self.role in self.OF_RUNS

    @property
    def takes_nothing(self) -> bool:
        """Tell whether the worker is ordered to take nothing.

        In the worker itself, the order is that of the last heartbeat.
        """
        return self.order != self.Order.SERVE

    @property
    def is_silent(self) -> bool:
        """Tell whether its leases are over by now, as it has not spoken for so long."""
        return (timezone.now() - self.heartbeat_at).total_seconds() > settings.LEASE_SECONDS

    @property
    def sweep_is_late(self) -> bool:
        """Tell whether no sweep was done for too long; only for the beat and control workers."""
        since: datetime = self.swept_at or self.started_at
        return (
            self.role in self.OF_CONTROL and (timezone.now() - since).total_seconds() > SWEEP_LATE_S
        )

    @property
    def standing(self) -> str:
        """Return the worker's state: stopped, dead, silent, quarantined, draining or alive."""
        if self.stopped_at is not None:
            return "dead" if self.stopped_reason.startswith("silent") else "stopped"
        if self.is_silent:
            return "silent"
        ordered: dict[str, str] = {
            self.Order.QUARANTINE: "quarantined",
            self.Order.DRAIN: "draining",
        }
        return ordered.get(self.order, "alive")

    def beat(
        self, doing: str | None = None, for_runs: Mapping[int, str] | None = None, **metrics: Any
    ) -> str:
        """Send a heartbeat and return the current order, in one statement.

        Fields that are not given stay as they were. A worker whose row is gone continues to serve.
        """
        changes: dict[str, Any] = {}
        if doing is not None:
            changes["doing"] = doing[:200]
            changes["for_runs"] = Jsonb(
                {str(run): words for run, words in (for_runs or {}).items()}
            )
        if metrics:
            changes["metrics"] = Jsonb(metrics)
        columns = "".join(f", {column} = %s" for column in changes)
        with connection.cursor() as cursor:
            cursor.execute(HEARTBEAT.format(columns), [*changes.values(), self.pk])
            row = cursor.fetchone()
        return row[0] if row else self.Order.SERVE

    def stop(self) -> None:
        fields = {"stopped_reason": "it was stopped", "doing": "", "for_runs": {}}
        Worker.every.filter(pk=self.pk).update(stopped_at=Now(), **fields)

    @transaction.atomic
    def tell(self, order: str, by: User, reason: str = "") -> None:
        """Store an order, which the worker reads with its next heartbeat.

        The caller must fence what the worker holds (apps.rewards.fencing).
        """
        columns = {
            "order": order,
            "order_reason": reason[:300],
            "ordered_by": by.username,
            "ordered_at": Now(),
        }
        Worker.every.filter(pk=self.pk).update(**columns)
        self.refresh_from_db()
        action = {
            self.Order.SERVE: "put back",
            self.Order.DRAIN: "drained",
            self.Order.QUARANTINE: "quarantined",
        }[self.Order(order)]
        AuditEntry.record(f"worker {action}", f"worker {self.key}", by, reason=reason)
