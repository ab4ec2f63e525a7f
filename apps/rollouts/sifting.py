"""Draws whose tasks are looked at first: what is not let through is left out of the run for good, and its draw takes another.

A task is looked at when a draw is about to take it, in the transaction that opens the draw's group: so what is left out is on
record exactly once, whoever dies, and a set of a million tasks costs no more looks than there are draws and bad tasks.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from django.db import transaction

from apps.rollouts.drawing import drawn
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.tasksets.models import Task

MOST_LOOKS = 1_000  # of one opening: the run's row is locked meanwhile


class NothingToDraw(Exception):
    """No task would be left; the message says what took the last one."""


class Looked(Protocol):
    """What was seen of some tasks. `left_out`: by a task's id, which operator does not let it through, and why."""

    left_out: Mapping[int, tuple[str, str]]

    def record(self, run: Run) -> None:
        """Count these looks."""


Sieve = Callable[[Run, RunConfig, Sequence[Task]], Looked]


def sifted(run: Run, plan: RunConfig, draws: Sequence[int], sieve: Sieve) -> list[Task]:
    """The tasks of these draws, all let through; none where `MOST_LOOKS` tasks were looked at before enough were found.

    Call it with the run's row locked, in the transaction that opens the draws' groups. What was left out by then stays so. Raises
    NothingToDraw.
    """
    let_through: set[int] = set()
    looks = 0
    while looks < MOST_LOOKS:
        before = transaction.savepoint()
        tasks = drawn(run, plan, draws)
        new = list({task.pk: task for task in tasks if task.pk not in let_through}.values())
        looked = sieve(run, plan, new)
        if not looked.left_out:
            transaction.savepoint_commit(before)
            looked.record(run)
            return tasks
        transaction.savepoint_rollback(before)  # what these draws took of what people asked for
        looked.record(run)
        leave_out(run, looked.left_out)
        let_through |= {task.pk for task in new} - looked.left_out.keys()
        looks += len(new)
    return []


def leave_out(run: Run, reasons: Mapping[int, tuple[str, str]]) -> None:
    """Leave these tasks out of the run, which is locked. Raises NothingToDraw where no task would be left."""
    gone, size = run.left_out.count(), sum(taskset.size for taskset in run.tasksets)
    if gone + len(reasons) >= size:
        raise NothingToDraw(f"no task of {run.asks_of} would be left to draw: {': '.join(list(reasons.values())[-1])}")
    left_out = run.left_out.model
    left_out.objects.bulk_create(
        left_out(run=run, task_id=task, operator=operator, reason=f"{operator}: {why}"[:200])
        for task, (operator, why) in reasons.items()
    )
