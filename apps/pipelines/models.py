"""Records of operators: how many samples each was given, kept and made, and which it removed."""

from collections.abc import Mapping, Sequence

from django.db import connection, models
from django.db.models.functions import Now

from apps.accounts.public_text import ReasonField
from apps.pipelines.applying import OperatorResult, RemovedSample
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run
from apps.tasksets.models import Task

MAX_REASON_LENGTH = 200


class OperatorCount(models.Model):
    """The samples given and kept, and rows made, by one operator at one position of a run."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="operator_counts")
    place = models.PositiveSmallIntegerField(help_text="Index in the pipeline, from 0.")
    operator = models.CharField(max_length=60)
    given = models.PositiveBigIntegerField(default=0)
    kept = models.PositiveBigIntegerField(default=0)
    made = models.PositiveBigIntegerField(
        default=0, db_default=0, help_text="Rows added by the operator."
    )

    class Meta:
        ordering = ["place", "operator"]
        constraints = [
            models.UniqueConstraint(
                fields=["run", "place", "operator"], name="one_count_per_operator_and_place"
            ),
            models.CheckConstraint(
                condition=models.Q(kept__lte=models.F("given")),
                name="an_operator_keeps_no_more_than_it_gets",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.operator}: {self.kept} of {self.given}"


class OwnExpert(models.Model):
    """An operator's copy of the policy's own answer as an expert row.

    `rollout` is its unchanged parent.

    `number` counts the copies for one task in the run, from 1; a second copy with the same number
    makes no row.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="own_experts")
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="+")
    number = models.PositiveSmallIntegerField()
    rollout = models.OneToOneField(Rollout, on_delete=models.CASCADE, related_name="own_expert")
    place = models.PositiveSmallIntegerField(
        help_text="Index of the operator in the pipeline, from 0."
    )
    operator = models.CharField(max_length=60)
    reason = ReasonField(max_length=MAX_REASON_LENGTH)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "task", "number"], name="one_own_expert_per_number"
            )
        ]

    def __str__(self) -> str:
        return f"{self.operator}: {self.reason}"


class CutRollout(models.Model):
    """A rollout that an operator removed from training.

    `is_silent` means that it still counts in the baseline of its group.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="cut_rollouts")
    rollout = models.OneToOneField(Rollout, on_delete=models.CASCADE, related_name="cut")
    place = models.PositiveSmallIntegerField(
        help_text="Index of the operator in the pipeline, from 0."
    )
    operator = models.CharField(max_length=60)
    reason = ReasonField(max_length=MAX_REASON_LENGTH)
    is_silent = models.BooleanField(default=False)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["run", "-id"], name="newest_cuts_of_a_run")]

    def __str__(self) -> str:
        return f"{self.operator}: {self.reason}"


def record(group: Group, passes: Sequence[OperatorResult], new_rows: Mapping[int, int]) -> None:
    """Record the operators' effect on the group, in the transaction that closes it.

    So each effect counts once. `new_rows` is the number of rows that it added, by position.
    """
    if not passes:
        return
    count(group.run_id, passes, new_rows)
    CutRollout.objects.bulk_create(
        CutRollout(
            run_id=group.run_id,
            rollout_id=cut.sample.rollout,
            place=result.place,
            operator=result.operator,
            reason=cut.reason[:MAX_REASON_LENGTH],
            is_silent=is_silent,
        )
        for result in passes
        for is_silent, cuts in ((False, result.cuts), (True, _silent_samples(passes, result)))
        for cut in cuts
    )


def count(run: int, passes: Sequence[OperatorResult], new_rows: Mapping[int, int]) -> None:
    """Add these results to the run's counts; `new_rows` are numbers of rows, by position."""
    counts = [
        (
            run,
            result.place,
            result.operator,
            len(result.given),
            len(result.kept),
            new_rows.get(result.place, 0),
        )
        for result in passes
    ]
    if counts:
        with connection.cursor() as cursor:
            cursor.execute(COUNT, [list(column) for column in zip(*counts, strict=True)])


def _silent_samples(
    passes: Sequence[OperatorResult], result: OperatorResult
) -> list[RemovedSample]:
    """Return the samples that this operator made silent and that no later operator removed."""
    removed = {cut.sample.rollout for later in passes for cut in later.cuts}
    return [cut for cut in result.silenced if cut.sample.rollout not in removed]


COUNT = """
    INSERT INTO pipelines_operatorcount AS c (run_id, place, operator, given, kept, made)
    SELECT * FROM unnest(%s::bigint[], %s::smallint[], %s::text[], %s::bigint[], %s::bigint[],
        %s::bigint[]) ORDER BY 2
    ON CONFLICT (run_id, place, operator)
    DO UPDATE SET given = c.given + excluded.given, kept = c.kept + excluded.kept,
        made = c.made + excluded.made"""
