"""Which tasks a run's next draws take: its selection put to work on the rows that the rule goes by.

Call it in the transaction that opens the draws' groups, with the run's row locked: what is read is what was recorded until
then, so that draws which were never committed take the same tasks when they are made again.
"""

from collections.abc import Sequence

from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.tasksets.drawing import position as shuffled
from apps.tasksets.models import Task
from apps.tasksets.selection import sequential, uniform


def drawn(run: Run, plan: RunConfig, draws: Sequence[int]) -> list[Task]:
    """The tasks of these draws, in their order. Raises ValueError where the taskset is empty."""
    left_out = frozenset(run.left_out.values_list("task__index", flat=True))
    return run.taskset.at([_index(plan, draw, run.taskset.size, left_out) for draw in draws])


def _index(plan: RunConfig, draw: int, size: int, left_out: frozenset[int]) -> int:
    if plan.selection.name == "sequential":
        return sequential.position(draw, size, left_out)
    if plan.selection.name == "random":
        return uniform.position(draw, size, plan.seed, left_out)
    return shuffled(draw, size, plan.seed, left_out)
