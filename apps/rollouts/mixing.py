"""The assignment of a run's draws to its tasksets: all to one, or to several by their shares."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.tasksets.models import Taskset
from apps.tasksets.selection import chance, turns


@dataclass(frozen=True)
class Part:
    """A taskset of a run, with those of some draws that fall to it.

    - `draws`: numbers of the run's draws, in order.
    - `seed`: the seed of the selection within the set; with several sets each has its own.
    - `left_out`: indexes of its tasks that are excluded.
    - `who`: its position among `shares`, those of all sets that still have a task to sample.
    """

    taskset: Taskset
    draws: Sequence[int]
    seed: int
    left_out: frozenset[int]
    who: int = 0
    shares: tuple[int, ...] = (1,)

    def before(self, draw: int) -> int:
        """Return how many of the run's earlier draws fell to this taskset."""
        return turns.before(draw, self.shares, self.who)

    @property
    def places(self) -> list[int]:
        """Return, for each draw of this part, how many earlier draws fell to this taskset.

        Selection within the taskset counts by these numbers.
        """
        return [self.before(draw) for draw in self.draws]


def split_by_taskset(run: Run, plan: RunConfig, draws: Sequence[int]) -> Iterator[Part]:
    """Yield the tasksets with those of the draws that fall to each.

    A taskset whose tasks are all excluded gets no draws; the others share them. Raises ValueError
    where no task is left.
    """
    left_out = _excluded_by_taskset(run)
    if run.taskset:
        yield Part(run.taskset, draws, plan.seed, left_out[run.taskset.pk])
        return
    usable = [share for share in run.shared if len(left_out[share.taskset_id]) < share.taskset.size]
    if not usable:
        raise ValueError(f"all tasks of {run.asks_of} are left out, so there is nothing to sample")
    shares = tuple(share.share for share in usable)
    fallen = defaultdict(list)
    for draw in draws:
        fallen[turns.turn(draw, shares)[0]].append(draw)
    for who, its_draws in fallen.items():
        taskset = usable[who].taskset
        yield Part(taskset, its_draws, _seed_of(taskset, plan), left_out[taskset.pk], who, shares)


def _seed_of(taskset: Taskset, plan: RunConfig) -> int:
    """Return the taskset's own seed, derived from the run's seed and the taskset's name.

    Sets of one size are therefore not shuffled alike, and adding another set changes nothing here.
    """
    return chance.below(2**31, plan.seed, taskset.slug)


def _excluded_by_taskset(run: Run) -> defaultdict[int, frozenset[int]]:
    """Return the indexes of the run's excluded tasks, by taskset."""
    indexes_by_taskset = defaultdict(set)
    for taskset, index in run.left_out.values_list("task__taskset", "task__index"):
        indexes_by_taskset[taskset].add(index)
    return defaultdict(
        frozenset, {taskset: frozenset(indexes) for taskset, indexes in indexes_by_taskset.items()}
    )
