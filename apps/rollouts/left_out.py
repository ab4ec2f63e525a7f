"""Tasks that a run draws no more: left out by a person or an operator, or quarantined, as work on their groups failed too often.

What counts is work that failed (`Group.fail` until its attempts were used up, or too few rewards because machines gave none), not
answers that were bad. Each such group is a row (`FailedGroup`), written in the transaction that drops it; with the one that makes
`task_attempts` of a task its quarantine is written too. Release forgives them all, and the task may be drawn again.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.locking import unit_of_work
from apps.accounts.models import AuditEntry, User
from apps.accounts.public_text import ReasonField
from apps.runs.models import NotPossible, Run
from apps.tasksets.models import Task

if TYPE_CHECKING:
    from apps.rollouts.models import Group

TOO_LONG = "prompt length"  # stands in `operator` where a prompt leaves no room for a reply


class LeftOut(models.Model):
    """A task that a run draws no more, and why."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="left_out")
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="+")
    reason = ReasonField(max_length=200)
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+", help_text="NULL: the run itself did."
    )
    operator = models.CharField(
        max_length=60, blank=True, default="", db_default="", help_text="Of its pipeline that left it out; empty: none did."
    )
    failures = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="Groups of it that failed, so that it was quarantined; 0: left out for another reason."
    )
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "task"], name="a_task_is_left_out_once")]

    def __str__(self) -> str:
        return f"{self.run_id} without {self.task_id}"


class FailedGroup(models.Model):
    """A drawn group that was dropped because work on it failed. It counts against its task until it is forgiven."""

    group = models.OneToOneField("rollouts.Group", on_delete=models.CASCADE, primary_key=True, related_name="failure")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="failed_groups", db_index=False)
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="+")
    is_forgiven = models.BooleanField(default=False, db_default=False)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        # How often a task has failed in its run.
        indexes = [models.Index(fields=["run", "task"], name="failures_that_count", condition=Q(is_forgiven=False))]

    def __str__(self) -> str:
        return f"{self.run_id} failed at {self.task_id} in group {self.group_id}"


def count_failure(group: "Group") -> None:
    """Of a group that is dropped in this transaction, by which its run's row is locked: two that fail at once are both counted.

    What nobody drew counts against no task; nor does an evaluation count, which draws every task once anyway.
    """
    run, plan = group.run, group.run.settings
    if group.draw_index is None or not plan.samples or plan.serve or plan.evaluation:
        return
    FailedGroup.objects.create(group=group, run=run, task_id=group.task_id)
    count = failures(run).filter(task=group.task_id).count()
    if count >= plan.task_attempts and _may_go(run, group.task_id):
        reason = f"{count} of its groups failed, the last: {group.reason}"[:200]
        LeftOut.objects.create(run=run, task_id=group.task_id, reason=reason, failures=count)
        run.topic.record("task_quarantined", **_named(group.task), failures=count, reason=reason)


def failures(run: Run) -> models.QuerySet[FailedGroup]:
    """Those of the run that count."""
    return run.failed_groups.filter(is_forgiven=False)


def too_long(run: Run) -> models.QuerySet[LeftOut]:
    """Tasks that the run left out because their prompts leave no room for a reply, the newest first."""
    return run.left_out.filter(operator=TOO_LONG).order_by("-pk")


def quarantined(run: Run) -> models.QuerySet[LeftOut]:
    """Tasks that the run left out as work on their groups failed, the newest first."""
    return run.left_out.filter(failures__gt=0).select_related("task__taskset").order_by("-pk")


def _may_go(run: Run, task_id: int) -> bool:
    """It is drawn still, and not the last that is: then the run itself is the matter, and it would have nothing to draw."""
    gone = set(run.left_out.values_list("task_id", flat=True))
    return task_id not in gone and len(gone) + 1 < sum(taskset.size for taskset in run.tasksets)


def _named(task: Task) -> dict[str, str | int]:
    return {"taskset": task.taskset.slug, "index": task.index}


# -- release ------------------------------------------------------------------------------------------------------------


@unit_of_work
def release(run: Run, left_out: int, by: User) -> Task:
    """The quarantined task may be drawn again, and what failed counts no more. Raises NotPossible."""
    locked = Run.locked(run.pk)
    if locked.state in Run.ENDED:
        raise NotPossible(f"run {locked.slug} is {locked.get_state_display()}: it draws no more")
    row = quarantined(locked).filter(pk=left_out).first()
    if row is None:
        raise NotPossible("it is quarantined no longer")
    failures(locked).filter(task=row.task_id).update(is_forgiven=True)
    row.delete()
    named = _named(row.task)
    locked.topic.record("task_released", **named, by=str(by))
    AuditEntry.record("task released", locked.address, by, locked.project, **named)
    return row.task


def unfail(run: Run, groups: Iterable[int], by: User | None = None) -> None:
    """These groups are worked on once more, so they have not failed; tasks that were quarantined for them are released.

    The caller holds the run's row and the transaction.
    """
    FailedGroup.objects.filter(group__in=list(groups)).delete()
    counts = dict(failures(run).values_list("task").annotate(count=models.Count("pk")))
    for row in quarantined(run):
        if counts.get(row.task_id, 0) < run.settings.task_attempts:
            row.delete()
            run.topic.record("task_released", **_named(row.task), by=str(by or ""))
