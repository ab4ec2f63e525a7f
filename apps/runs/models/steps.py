"""Optimizer steps of the trainer, and the metrics of each."""

import functools
import math
import operator
from collections.abc import Iterable
from typing import Any

from django.db import connection, models, transaction
from django.db.models import OuterRef, Q, QuerySet, Subquery

from apps.accounts.compiled_queries import Change, compiled_update
from apps.runs.changing import knobs_of_update
from apps.runs.models.run import Run
from apps.runs.models.spans import MetricSpan, hold_spans

REWARD = "reward_mean"
SAMPLING = "explore_tokens_per_s"
NOW = {
    REWARD: "reward_now",
    SAMPLING: "tokens_per_s_now",
}  # whose newest value stands on the run, where lists sort by it


class TrainStep(models.Model):
    """One optimizer step: its batch is fixed when it is planned, and never changes."""

    class State(models.TextChoices):
        PLANNED = "planned"
        COMMITTED = "committed"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="steps")
    number = models.PositiveIntegerField(help_text="Number of the step, from 1.")
    state = models.CharField(max_length=10, choices=State.choices, default=State.PLANNED)
    version = models.PositiveIntegerField(
        help_text="The trainer's weight version when the batch was taken."
    )
    fence = models.BigIntegerField()
    knobs = models.JSONField(
        default=dict,
        db_default={},
        help_text=(
            "Settings of the step by dotted configuration field; fixed when the batch is taken."
        ),
    )
    skipped = models.CharField(
        max_length=200,
        blank=True,
        help_text="Why the step was skipped (loss or gradient not finite).",
    )
    planned_at = models.DateTimeField(auto_now_add=True)
    committed_at = models.DateTimeField(null=True)
    seconds = models.FloatField(null=True, help_text="Seconds from planned to committed.")

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["run", "number"], name="one_step_per_number")
        ]
        # A run's page tells of the few steps that were not applied.
        # Where a moment stands among a run's steps: marks of changes, and curves against the clock.
        indexes = [
            models.Index(fields=["run"], name="skipped_steps", condition=~Q(skipped="")),
            models.Index(fields=["run", "committed_at"], name="steps_by_the_clock"),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} step {self.number}"

    @classmethod
    def plan(cls, run: Run, fence: int, skipped: str = "") -> "TrainStep":
        """Create the run's next step with its present knobs, and return it.

        The caller holds the lock on the run's row and adds the batch.
        """
        plan = run.settings
        return cls.objects.create(
            run=run,
            number=run.step + 1,
            version=run.step // plan.sync_interval,
            fence=fence,
            skipped=skipped[:200],
            knobs=knobs_of_update(plan),
        )


class MetricQuerySet(models.QuerySet["Metric"]):
    def of_last_steps(self, runs: Iterable[Run], steps: int) -> "MetricQuerySet":
        """Select the points of each run's last steps, as far as these rows know them.

        The bounds are passed as numbers. With `step > run.step - …` the planner assumes that all
        points of the runs are wanted.
        """
        bounds = [Q(run=run.pk, step__gt=run.step - steps) for run in runs]
        return self.filter(functools.reduce(operator.or_, bounds)) if bounds else self.none()


class Metric(models.Model):
    """One number of one step, never NaN or infinite."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="metrics")
    step = models.PositiveIntegerField()
    name = models.CharField(max_length=60)
    value = models.FloatField()
    at = models.DateTimeField(auto_now_add=True)

    objects = MetricQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "name", "step"], name="one_value_per_metric_and_step"
            ),
            models.CheckConstraint(
                condition=Q(value__gt=float("-inf")) & Q(value__lt=float("inf")),
                name="metrics_are_finite",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name}@{self.step}={self.value:g}"

    @classmethod
    def record(cls, run: Run, step: int, values: dict[str, float]) -> None:
        """Write a step's metrics once; a replay of the same step changes nothing.

        Not finite ones are left out.
        """
        finite = {name: float(value) for name, value in values.items() if math.isfinite(value)}
        with transaction.atomic(savepoint=False):
            hold_spans(run)
            with connection.cursor() as cursor:
                cursor.execute(RECORD, [run.pk, step, list(finite), list(finite.values())])
            MetricSpan.close(run, step, list(finite))
            if not values.keys().isdisjoint(NOW):
                _show_newest(run.pk)

    @classmethod
    def newest(cls, name: str) -> QuerySet["Metric", Any]:
        """Return a subquery of the metric's newest value in the outer run."""
        return (
            cls.objects.filter(run=OuterRef("pk"), name=name).order_by("-step").values("value")[:1]
        )


# The placeholders of bulk_create for each value cost three times as much.
RECORD = """
    INSERT INTO runs_metric (run_id, step, name, value, at)
    SELECT %s, %s, name, value, statement_timestamp()
    FROM unnest(%s::text[], %s::float8[]) AS told(name, value)
    ON CONFLICT DO NOTHING"""


@compiled_update
def _show_newest(run: int) -> Change:
    newest = {field: Subquery(Metric.newest(name)) for name, field in NOW.items()}
    return Run.objects.filter(pk=run), newest
