"""Task statistics of a run: how often each task succeeded, and the estimate of its success rate."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db import connection, models
from django.db.models import F, Q
from django.db.models.functions import Now

from apps.runs.models import Run
from apps.runs.selection import Bots, Rate
from apps.tasksets.models import Task
from apps.tasksets.selection.bots import evidence

# The log of the least share left of a belief: PostgreSQL refuses numbers that underflow.
MIN_LOG = -600.0
RATES = {"all": F("rate"), "recent": (F("alpha") - 1.0) / (F("alpha") + F("beta") - 2.0)}


@dataclass(frozen=True)
class GroupResult:
    """The result of one group for its task: the success of each attempt, from 0 to 1.

    There is at least one attempt.
    """

    task_id: int
    draw: int
    successes: Sequence[float]


class TaskRecordQuerySet(models.QuerySet):
    def rates(self, indexes: Iterable[int], rate: Rate) -> dict[int, float]:
        """Return the success rates of those of these tasks that were tried, by index."""
        return dict(
            self.filter(task__index__in=list(indexes))
            .annotate(success_rate=RATES[rate])
            .values_list("task__index", "success_rate")
        )

    def solved(self, min_success_rate: float, min_attempts: int) -> "TaskRecordQuerySet":
        """Filter to tasks with a high enough success rate over enough attempts."""
        return self.filter(rate__gte=min_success_rate, attempts__gte=min_attempts)

    def beliefs(self, groups_per_step: int, since: int = 0) -> list[tuple[int, float, float, int]]:
        """Return (index, α, β, step of the last result) of the tasks tried since that step."""
        newest = self.filter(last_draw__gte=since * groups_per_step)
        rows = newest.values_list("task__index", "alpha", "beta", "last_draw")
        return [(index, alpha, beta, draw // groups_per_step) for index, alpha, beta, draw in rows]


class TaskRecord(models.Model):
    """The statistics of a task in a run.

    Written with the verdict on a group, in one transaction; a success is reward ÷ full reward, from
    0 to 1.
    """

    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, related_name="task_records", db_index=False
    )
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="+")
    attempts = models.PositiveIntegerField(help_text="Rollouts with a reward.")
    successes = models.FloatField(help_text="The sum of their successes.")
    rate = models.GeneratedField(
        expression=F("successes") / F("attempts"), output_field=models.FloatField(), db_persist=True
    )
    alpha = models.FloatField(
        help_text=(
            "Parameter α of the Beta distribution that estimates the success rate; "
            "older results are discounted."
        )
    )
    beta = models.FloatField()
    last_draw = models.PositiveIntegerField(
        help_text="Newest draw whose group was judged; results are discounted from there."
    )
    updated_at = models.DateTimeField(db_default=Now())

    objects = TaskRecordQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "task"], name="one_record_per_task_of_a_run"),
            models.CheckConstraint(condition=Q(attempts__gt=0), name="a_recorded_task_was_tried"),
        ]
        indexes = [
            # The hardest and the easiest, for the page.
            models.Index(fields=["run", "rate"], name="tasks_by_success"),
            # TaskRecordQuerySet.beliefs: what is not forgotten yet.
            models.Index(fields=["run", "last_draw"], name="newest_results"),
        ]

    def __str__(self) -> str:
        return f"{self.successes:g} of {self.attempts} at {self.task_id}"

    @classmethod
    def add(
        cls, run_id: int, verdicts: Iterable[GroupResult], groups_per_step: int, beliefs: Bots
    ) -> None:
        """Add the results of groups to their tasks.

        Call it once, in the transaction of their verdicts.

        A statement takes each task once, so further groups of a task come in further statements, in
        the order given.
        """
        rounds: list[dict[int, GroupResult]] = []
        for result in verdicts:
            free = next((by_task for by_task in rounds if result.task_id not in by_task), None)
            if free is None:
                rounds.append(free := {})
            free[result.task_id] = result
        log_retention = MIN_LOG if beliefs.forgetting == 1 else math.log1p(-beliefs.forgetting)
        for by_task in rounds:
            columns = zip(*(_row(result, beliefs) for result in by_task.values()), strict=True)
            with connection.cursor() as cursor:
                cursor.execute(
                    ADD,
                    {
                        "run": run_id,
                        "per_step": groups_per_step,
                        "kept": log_retention,
                        "least": MIN_LOG,
                        **dict(zip(COLUMNS, map(list, columns), strict=True)),
                    },
                )


def _row(result: GroupResult, beliefs: Bots) -> tuple[int, int, int, float, float, float]:
    total = math.fsum(result.successes)
    return (
        result.task_id,
        result.draw,
        len(result.successes),
        total,
        *evidence(total / len(result.successes), beliefs.counts_as),
    )


COLUMNS = ("tasks", "draws", "attempts", "successes", "alphas", "betas")
# One statement, so that two concurrent verdicts on one task are both added.
ADD = """
    INSERT INTO rollouts_taskrecord AS r (run_id, task_id, attempts, successes, alpha, beta,
        last_draw)
    SELECT %(run)s, task, attempts, successes, 1 + alpha, 1 + beta, draw
    FROM unnest(%(tasks)s::bigint[], %(draws)s::int[], %(attempts)s::int[], %(successes)s::float8[],
        %(alphas)s::float8[],
        %(betas)s::float8[]) AS t(task, draw, attempts, successes, alpha, beta)
    ON CONFLICT (run_id, task_id) DO UPDATE SET
        attempts = r.attempts + excluded.attempts, successes = r.successes + excluded.successes,
        alpha = (r.alpha - 1) * exp(greatest(%(least)s::float8, %(kept)s::float8
            * greatest(0, excluded.last_draw / %(per_step)s::int
                - r.last_draw / %(per_step)s::int))) + excluded.alpha,
        beta = (r.beta - 1) * exp(greatest(%(least)s::float8, %(kept)s::float8
            * greatest(0, excluded.last_draw / %(per_step)s::int
                - r.last_draw / %(per_step)s::int))) + excluded.beta,
        last_draw = greatest(r.last_draw, excluded.last_draw), updated_at = statement_timestamp()"""
