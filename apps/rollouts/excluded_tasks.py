"""Tasks excluded from a run: by a person or an operator, or quarantined after failed groups.

Failures count work that failed (`Group.fail` until its attempts were used up, or too few rewards
because scorers gave none), not bad answers. Each such group is a row (`FailedGroup`), written in
the transaction that drops it; the row that reaches `task_attempts` for a task also quarantines it.
Releasing a task forgives its failures, and the task may be drawn again.
"""

from collections.abc import Iterable

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.locking import unit_of_work
from apps.accounts.models import AuditEntry, User
from apps.accounts.public_text import ReasonField
from apps.runs.models import NotPossible, Run
from apps.tasksets.models import Task

TOO_LONG = "prompt length"  # the `operator` of tasks whose prompts leave no room for a reply


class LeftOut(models.Model):
    """A task that is excluded from a run, and the reason."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="left_out")
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="+")
    reason = ReasonField(max_length=200)
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="User who excluded the task; NULL if the run did.",
    )
    operator = models.CharField(
        max_length=60,
        blank=True,
        default="",
        db_default="",
        help_text="Operator of the pipeline that excluded the task; empty if none did.",
    )
    failures = models.PositiveSmallIntegerField(
        default=0,
        db_default=0,
        help_text=(
            "Number of failed groups for which the task was excluded; 0 for another reason."
        ),
    )
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "task"], name="a_task_is_left_out_once")
        ]

    def __str__(self) -> str:
        return f"{self.run_id} without {self.task_id}"


class FailedGroup(models.Model):
    """A sampled group that was dropped because work on it failed.

    It counts against its task until it is forgiven.
    """

    group = models.OneToOneField(
        "rollouts.Group", on_delete=models.CASCADE, primary_key=True, related_name="failure"
    )
    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, related_name="failed_groups", db_index=False
    )
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="+")
    is_forgiven = models.BooleanField(default=False, db_default=False)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        # The number of failures of a task in its run.
        indexes = [
            models.Index(
                fields=["run", "task"], name="failures_that_count", condition=Q(is_forgiven=False)
            )
        ]

    def __str__(self) -> str:
        return f"{self.run_id} failed at {self.task_id} in group {self.group_id}"


def count_failure(run: Run, task: Task, *, group: int, reason: str) -> None:
    """Count a dropped group against its task, and quarantine the task at its limit of failures.

    `group` is the primary key of a group that was drawn; `reason` says why it was dropped.
    Call it in the transaction that drops the group, with the run's row locked, so that two groups
    that fail at once are both counted. Groups of evaluations, which ask each task once anyway, and
    those of agents' own calls do not count.
    """
    plan = run.settings
    if not plan.samples or plan.serve or plan.evaluation:
        return
    FailedGroup.objects.create(group_id=group, run=run, task=task)
    count = failures(run).filter(task=task).count()
    if count >= plan.task_attempts and _may_go(run, task.pk):
        why = f"{count} of its groups failed, the last: {reason}"[:200]
        LeftOut.objects.create(run=run, task=task, reason=why, failures=count)
        run.topic.record("task_quarantined", **_task_name(task), failures=count, reason=why)


def failures(run: Run) -> models.QuerySet[FailedGroup]:
    """Return the run's failed groups that have not been forgiven."""
    return run.failed_groups.filter(is_forgiven=False)


def too_long(run: Run) -> models.QuerySet[LeftOut]:
    """Return the tasks excluded because their prompts leave no room for a reply, newest first."""
    return run.left_out.filter(operator=TOO_LONG).order_by("-pk")


def quarantined(run: Run) -> models.QuerySet[LeftOut]:
    """Return the tasks excluded because work on their groups failed, newest first."""
    return run.left_out.filter(failures__gt=0).select_related("task__taskset").order_by("-pk")


def _may_go(run: Run, task_id: int) -> bool:
    """Tell whether the task can be excluded: it is still sampled, and it is not the last such task.

    When every task fails, the fault is the run's, and it would have nothing left to sample.
    """
    excluded = set(run.left_out.values_list("task_id", flat=True))
    return task_id not in excluded and len(excluded) + 1 < sum(
        taskset.size for taskset in run.tasksets
    )


def _task_name(task: Task) -> dict[str, str | int]:
    return {"taskset": task.taskset.slug, "index": task.index}


# -- release


@unit_of_work
def release_from_quarantine(run: Run, left_out: int, by: User) -> Task:
    """Release a quarantined task: it may be drawn again and its failures are forgiven.

    Raises NotPossible.
    """
    locked = Run.locked(run.pk)
    if locked.state in Run.ENDED:
        raise NotPossible(
            f"run {locked.slug} is {locked.get_state_display()} and samples no more tasks"
        )
    row = quarantined(locked).filter(pk=left_out).first()
    if row is None:
        raise NotPossible("it is not quarantined any more")
    failures(locked).filter(task=row.task_id).update(is_forgiven=True)
    row.delete()
    task_name = _task_name(row.task)
    locked.topic.record("task_released", **task_name, by=str(by))
    AuditEntry.record("task released", locked.address, by, locked.project, **task_name)
    return row.task


def unfail(run: Run, groups: Iterable[int], by: User | None = None) -> None:
    """Delete the failures of groups that are retried, and release tasks quarantined for them.

    The caller holds the lock on the run's row and the transaction.
    """
    FailedGroup.objects.filter(group__in=list(groups)).delete()
    counts = dict(failures(run).values_list("task").annotate(count=models.Count("pk")))
    for row in quarantined(run):
        if counts.get(row.task_id, 0) < run.settings.task_attempts:
            row.delete()
            run.topic.record("task_released", **_task_name(row.task), by=str(by or ""))
