"""Amounts that runs have used, and a project's prices for them."""

import math
from collections.abc import Mapping
from datetime import datetime

from django.db import connection, models
from django.db.models import Q

from apps.accounts.models import Project
from apps.runs.models.run import Run

MAX_LABEL_LENGTH = 12


class Usage(models.Model):
    """An amount of one kind that a run used in one hour, as one worker counts it.

    The hour is by the database's clock. Kinds are those of apps.runs.costs. A worker's key belongs
    to its process alone, so two processes never count into one row.
    """

    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, related_name="usage", db_index=False
    )  # its constraint begins with it
    kind = models.CharField(max_length=30)
    worker = models.CharField(max_length=80, blank=True)
    hour = models.DateTimeField()
    amount = models.FloatField()

    class Meta:
        verbose_name_plural = "usage"
        constraints = [
            models.UniqueConstraint(
                fields=["run", "kind", "hour", "worker"], name="one_amount_per_worker_and_hour"
            ),
            models.CheckConstraint(
                condition=Q(amount__gte=0, amount__lt=float("inf")), name="amounts_are_finite"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.run_id}: {self.amount:g} {self.kind}"

    @classmethod
    def add(cls, run: int, worker: str, amounts: Mapping[str, float]) -> None:
        """Add amounts for one run, as `add_all` does."""
        cls.add_all({(run, worker): amounts})

    @classmethod
    def add_all(cls, amounts: Mapping[tuple[int, str], Mapping[str, float]]) -> None:
        """Add these amounts, by (run, worker), to the present hour.

        Call it in the transaction of the work, so that both are recorded or neither. Call it only
        once in a transaction: the totals of the runs are then locked in the same order by
        everybody.
        """
        rows = [
            (run, worker[:80], kind, float(amount))
            for (run, worker), used in amounts.items()
            for kind, amount in used.items()
            if amount > 0 and math.isfinite(amount)
        ]
        if not rows:
            return
        with connection.cursor() as cursor:
            cursor.execute(ADD, [list(column) for column in zip(*rows, strict=True)])

    @classmethod
    def put(cls, run: int, worker: str, sums: Mapping[tuple[str, datetime], float]) -> None:
        """Set the amounts of each (kind, hour); a repeated call changes nothing.

        Nothing is written for a run that was deleted.
        """
        if not sums:
            return
        rows = [(kind, hour, float(value)) for (kind, hour), value in sums.items()]
        kinds, hours, values = zip(*rows, strict=True)
        with connection.cursor() as cursor:
            cursor.execute(PUT, [worker[:80], list(kinds), list(hours), list(values), run])


HOUR = "date_trunc('hour', now(), 'UTC')"
ADD = f"""
    INSERT INTO runs_usage (run_id, kind, worker, hour, amount)
    SELECT run, kind, worker, {HOUR}, amount
    FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::float8[]) AS used(run, worker, kind,
        amount) ORDER BY run, kind, worker
    ON CONFLICT (run_id, kind, hour, worker) DO UPDATE
        SET amount = runs_usage.amount + EXCLUDED.amount"""
PUT = """
    INSERT INTO runs_usage AS known (run_id, kind, worker, hour, amount)
    SELECT run.id, kind, %s, hour, amount
        FROM unnest(%s::text[], %s::timestamptz[], %s::float8[]) AS used(kind, hour, amount)
        JOIN runs_run run ON run.id = %s
    ORDER BY kind, hour
    ON CONFLICT (run_id, kind, hour, worker) DO UPDATE SET amount = EXCLUDED.amount
        WHERE known.amount <> EXCLUDED.amount"""


class UsageTotal(models.Model):
    """The total of one kind that a run has used.

    A trigger on the table of amounts updates it in the same transaction. Pages, updates and limits
    read it often, and it has one row per kind, however old the run is.
    """

    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, related_name="usage_totals", db_index=False
    )
    kind = models.CharField(max_length=30)
    own = models.FloatField()
    evaluations = models.FloatField(
        help_text="Amount used by all evaluations of the run's weight versions."
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "kind"], name="one_total_of_a_kind")]

    def __str__(self) -> str:
        return f"{self.run_id}: {self.own + self.evaluations:g} {self.kind}"


class Prices(models.Model):
    """Prices of amounts in a project; all 0 until somebody sets them: then no money is shown."""

    project = models.OneToOneField(Project, on_delete=models.CASCADE, related_name="prices")
    currency = models.CharField(
        max_length=MAX_LABEL_LENGTH,
        blank=True,
        default="",
        db_default="",
        help_text="Shown next to amounts, for example € or USD.",
    )
    gpu_hour = models.FloatField(default=0.0, db_default=0.0, help_text="Price of one GPU hour.")
    cpu_hour = models.FloatField(
        default=0.0, db_default=0.0, help_text="Price of one CPU core hour."
    )
    judge_tokens = models.FloatField(
        default=0.0,
        db_default=0.0,
        help_text="Price of 1,000 tokens that a judge reads or writes.",
    )
    person_hour = models.FloatField(
        default=0.0, db_default=0.0, help_text="Price of one hour of a rater."
    )

    class Meta:
        verbose_name_plural = "prices"
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    gpu_hour__gte=0, cpu_hour__gte=0, judge_tokens__gte=0, person_hour__gte=0
                )
                & Q(
                    **{
                        f"{name}__lt": float("inf")
                        for name in ("gpu_hour", "cpu_hour", "judge_tokens", "person_hour")
                    }
                ),
                name="prices_are_finite",
            )
        ]

    def __str__(self) -> str:
        return f"prices of {self.project_id}"

    @property
    def are_set(self) -> bool:
        return any((self.gpu_hour, self.cpu_hour, self.judge_tokens, self.person_hour))
