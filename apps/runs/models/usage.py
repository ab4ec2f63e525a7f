"""What runs have used, in amounts; and what a project's amounts cost."""

import math
from collections.abc import Mapping
from datetime import datetime

from django.db import connection, models
from django.db.models import Q

from apps.accounts.models import Project
from apps.runs.models.run import Run

LONGEST_LABEL = 12


class Usage(models.Model):
    """An amount of one kind that a run used in one hour of the database's clock, as one worker counts it.

    Kinds are those of apps.runs.costs. A worker's key is its process's own, so that no two count into one row.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="usage", db_index=False)  # its constraint begins with it
    kind = models.CharField(max_length=30)
    worker = models.CharField(max_length=80, blank=True)
    hour = models.DateTimeField()
    amount = models.FloatField()

    class Meta:
        verbose_name_plural = "usage"
        constraints = [
            models.UniqueConstraint(fields=["run", "kind", "hour", "worker"], name="one_amount_per_worker_and_hour"),
            models.CheckConstraint(condition=Q(amount__gte=0, amount__lt=float("inf")), name="amounts_are_finite"),
        ]

    def __str__(self) -> str:
        return f"{self.run_id}: {self.amount:g} {self.kind}"

    @classmethod
    def add(cls, run: int, worker: str, amounts: Mapping[str, float]) -> None:
        """Count these more, in this hour. In the transaction of the work that they are of: both are there, or neither."""
        rows = [(kind, float(amount)) for kind, amount in amounts.items() if amount > 0 and math.isfinite(amount)]
        if not rows:
            return
        kinds, values = zip(*rows, strict=True)
        with connection.cursor() as cursor:
            cursor.execute(ADD, [run, worker[:80], list(kinds), list(values)])

    @classmethod
    def put(cls, run: int, worker: str, sums: Mapping[tuple[str, datetime], float]) -> None:
        """Set what was used by (kind, hour): whoever says it again changes nothing."""
        if not sums:
            return
        rows = [(kind, hour, float(value)) for (kind, hour), value in sums.items()]
        kinds, hours, values = zip(*rows, strict=True)
        with connection.cursor() as cursor:
            cursor.execute(PUT, [run, worker[:80], list(kinds), list(hours), list(values)])


HOUR = "date_trunc('hour', now(), 'UTC')"
ADD = f"""
    INSERT INTO runs_usage (run_id, kind, worker, hour, amount)
    SELECT %s, kind, %s, {HOUR}, amount FROM unnest(%s::text[], %s::float8[]) AS used(kind, amount) ORDER BY kind
    ON CONFLICT (run_id, kind, hour, worker) DO UPDATE SET amount = runs_usage.amount + EXCLUDED.amount"""
PUT = """
    INSERT INTO runs_usage AS known (run_id, kind, worker, hour, amount)
    SELECT %s, kind, %s, hour, amount FROM unnest(%s::text[], %s::timestamptz[], %s::float8[]) AS used(kind, hour, amount)
    ORDER BY kind, hour
    ON CONFLICT (run_id, kind, hour, worker) DO UPDATE SET amount = EXCLUDED.amount WHERE known.amount <> EXCLUDED.amount"""


class Prices(models.Model):
    """What amounts cost in a project; all 0 where nobody has said: then amounts are shown without money."""

    project = models.OneToOneField(Project, on_delete=models.CASCADE, related_name="prices")
    currency = models.CharField(
        max_length=LONGEST_LABEL, blank=True, default="", db_default="", help_text="As it is shown beside sums: € or USD."
    )
    gpu_hour = models.FloatField(default=0.0, db_default=0.0, help_text="An hour of a GPU.")
    cpu_hour = models.FloatField(default=0.0, db_default=0.0, help_text="An hour of a processor's core.")
    judge_tokens = models.FloatField(default=0.0, db_default=0.0, help_text="A thousand tokens that a judge reads or writes.")
    person_hour = models.FloatField(default=0.0, db_default=0.0, help_text="An hour of a person who decides.")

    class Meta:
        verbose_name_plural = "prices"
        constraints = [
            models.CheckConstraint(
                condition=Q(gpu_hour__gte=0, cpu_hour__gte=0, judge_tokens__gte=0, person_hour__gte=0)
                & Q(**{f"{name}__lt": float("inf") for name in ("gpu_hour", "cpu_hour", "judge_tokens", "person_hour")}),
                name="prices_are_finite",
            )
        ]

    def __str__(self) -> str:
        return f"prices of {self.project_id}"

    @property
    def are_set(self) -> bool:
        return any((self.gpu_hour, self.cpu_hour, self.judge_tokens, self.person_hour))
