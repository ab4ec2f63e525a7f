"""Which of a run's draws fall to which of its tasksets: all to the one, or to several by their shares, in turns."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.tasksets.models import Taskset
from apps.tasksets.selection import chance, turns


@dataclass(frozen=True)
class Part:
    """A taskset of a run with those of some draws that fall to it.

    draws      numbers of the run's draws, in their order
    seed       of the selection within the set: the run's, or of several sets each its own
    left_out   indexes of its tasks that are not drawn
    who        its place among `shares`, those of all sets that have a task to draw
    """

    taskset: Taskset
    draws: Sequence[int]
    seed: int
    left_out: frozenset[int]
    who: int = 0
    shares: tuple[int, ...] = (1,)

    def before(self, draw: int) -> int:
        """How many of the run's draws before this one are the set's."""
        return turns.before(draw, self.shares, self.who)

    @property
    def places(self) -> list[int]:
        """Of each of its draws, how many of the set's went before: what a selection within the set counts by."""
        return [self.before(draw) for draw in self.draws]


def parts_of(run: Run, plan: RunConfig, draws: Sequence[int]) -> Iterator[Part]:
    """The tasksets to which these draws fall.

    A set whose tasks are all left out has no turn; its turns are the others'. Raises ValueError where no task is left.
    """
    left_out = _left_out(run)
    if run.taskset_id:
        yield Part(run.taskset, draws, plan.seed, left_out[run.taskset_id])
        return
    usable = [one for one in run.shared if len(left_out[one.taskset_id]) < one.taskset.size]
    if not usable:
        raise ValueError(f"all tasks of {run.asks_of} are left out: there is nothing to draw")
    shares = tuple(one.share for one in usable)
    fallen = defaultdict(list)
    for draw in draws:
        fallen[turns.turn(draw, shares)[0]].append(draw)
    for who, its_draws in fallen.items():
        taskset = usable[who].taskset
        yield Part(taskset, its_draws, _seed_of(taskset, plan), left_out[taskset.pk], who, shares)


def _seed_of(taskset: Taskset, plan: RunConfig) -> int:
    """Its own, so that sets of one size are not shuffled alike; by its name, so that another set beside it changes nothing."""
    return chance.below(2**31, plan.seed, taskset.slug)


def _left_out(run: Run) -> defaultdict[int, frozenset[int]]:
    """Indexes by taskset."""
    found = defaultdict(set)
    for taskset, index in run.left_out.values_list("task__taskset", "task__index"):
        found[taskset].add(index)
    return defaultdict(frozenset, {taskset: frozenset(indexes) for taskset, indexes in found.items()})
