"""Task filtering before sampling: rejected tasks are excluded from the run and replaced.

A task is checked when it is about to be drawn, in the transaction that opens the draw's group. So
an exclusion is recorded exactly once, whichever process dies, and a set of a million tasks costs no
more checks than there are draws and bad tasks.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from django.db import transaction

from apps.rollouts.task_sampling import sample_tasks
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.tasksets.models import Task

MAX_CHECKS = 1_000  # the most checks per opening: the run's row is locked meanwhile


class NothingToDraw(Exception):
    """An error raised when no task would be left; the message says what rejected the last one."""


class CheckedTasks(Protocol):
    """The result of checking some tasks."""

    @property
    def left_out(self) -> Mapping[int, tuple[str, str]]:
        """Map the id of each rejected task to (operator, reason)."""

    def record(self, run: Run) -> None:
        """Record these checks in the run's statistics."""


Sieve = Callable[[Run, RunConfig, Sequence[Task]], CheckedTasks]


def sifted(run: Run, plan: RunConfig, draws: Sequence[int], sieve: Sieve) -> list[Task]:
    """Return the tasks of these draws, all accepted.

    Returns none when `MAX_CHECKS` tasks were checked before enough were accepted. Call it with the
    run's row locked, in the transaction that opens the draws' groups. Tasks that were excluded by
    then stay excluded. Raises NothingToDraw.
    """
    let_through: set[int] = set()
    looks = 0
    while looks < MAX_CHECKS:
        before = transaction.savepoint()
        tasks = sample_tasks(run, plan, draws)
        new = list({task.pk: task for task in tasks if task.pk not in let_through}.values())
        looked = sieve(run, plan, new)
        if not looked.left_out:
            transaction.savepoint_commit(before)
            looked.record(run)
            return tasks
        transaction.savepoint_rollback(before)  # releases requested tasks that these draws took
        looked.record(run)
        leave_out(run, looked.left_out)
        let_through |= {task.pk for task in new} - looked.left_out.keys()
        looks += len(new)
    return []


def leave_out(run: Run, reasons: Mapping[int, tuple[str, str]]) -> None:
    """Exclude these tasks from the run, whose row is locked.

    Raises NothingToDraw where no task would be left.
    """
    excluded = run.left_out.count()
    size = sum(taskset.size for taskset in run.tasksets)
    if excluded + len(reasons) >= size:
        raise NothingToDraw(
            f"no task of {run.asks_of} would be left to sample: "
            f"{': '.join(list(reasons.values())[-1])}"
        )
    left_out = run.left_out.model
    left_out.objects.bulk_create(
        left_out(run=run, task_id=task, operator=operator, reason=f"{operator}: {why}"[:200])
        for task, (operator, why) in reasons.items()
    )
