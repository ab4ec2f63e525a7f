"""Requests of people for the tasks that a run draws next (`selection: people`).

Each request is a row; it records the draw that served it.
"""

from collections.abc import Sequence

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.locking import unit_of_work
from apps.accounts.models import AuditEntry, User
from apps.runs.models import NotPossible, Run
from apps.tasksets.models import Task, Taskset

MAX_WAITING = 200


class TaskRequestQuerySet(models.QuerySet):
    def waiting(self) -> "TaskRequestQuerySet":
        """Return the requests that no draw has served yet, in order of arrival."""
        return self.filter(draw_index=None).order_by("pk")

    def serve(self, draws: Sequence[int], left_out: models.QuerySet) -> tuple[list[Task], int]:
        """Assign waiting requests to the first of these draws.

        Return (the requested tasks, how many earlier draws served a request). Call it with the
        run's row locked, in the transaction that opens the groups of the draws.
        """
        served = self.exclude(draw_index=None).count()
        rows = list(self.waiting().exclude(task__in=left_out).select_related("task")[: len(draws)])
        for row, draw in zip(rows, draws, strict=False):
            row.draw_index = draw
        self.bulk_update(rows, ["draw_index"])
        return [row.task for row in rows], served


class TaskRequest(models.Model):
    """A person's request for a task.

    `draw_index` is the draw that served it, NULL while it waits.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="task_requests")
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="+")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField(db_default=Now())
    draw_index = models.PositiveIntegerField(null=True)

    objects = TaskRequestQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "task"], condition=Q(draw_index=None), name="a_task_waits_once"
            ),
            models.UniqueConstraint(
                fields=["run", "draw_index"], name="a_draw_serves_one_task_request"
            ),
        ]

    def __str__(self) -> str:
        return f"task {self.task_id} for run {self.run_id}"

    @classmethod
    @unit_of_work
    def submit(cls, run: Run, taskset: Taskset, index: int, by: User) -> bool:
        """Request the task of this index, and return False if it is already waiting.

        Raises NotPossible with the reason.
        """
        run = Run.locked(run.pk)
        if run.state in Run.ENDED:
            raise NotPossible(
                f"run {run.slug} is {run.get_state_display()} and samples no more tasks"
            )
        if run.settings.selection.name != "people":
            raise NotPossible(
                f"run {run.slug} samples by `{run.settings.selection.name}`; set `selection: "
                "people` first"
            )
        if taskset.pk not in run.taskset_ids:
            raise NotPossible(f"run {run.slug} samples from {run.asks_of}, not from {taskset.slug}")
        task = taskset.tasks.filter(index=index).first()
        if task is None:
            raise NotPossible(
                f"taskset {taskset.slug} has no task {index:,}; the last is {taskset.size - 1:,}"
            )
        if run.left_out.filter(task=task).exists():
            raise NotPossible(f"task {index:,} is left out of run {run.slug}")
        if run.task_requests.waiting().count() >= MAX_WAITING:
            raise NotPossible(f"{MAX_WAITING} tasks already wait to be sampled")
        _, is_new = cls.objects.get_or_create(
            run=run, task=task, draw_index=None, defaults={"by": by}
        )
        if is_new:
            AuditEntry.record(
                "task requested", run.address, by, run.project, task=f"{taskset.slug} {index}"
            )
        return is_new
