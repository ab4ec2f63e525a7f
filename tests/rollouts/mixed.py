"""Runs over two tasksets, and a simple reference calculation of the tasks that such a run draws."""

from collections.abc import Callable, Iterator, Mapping

from apps.accounts.models import Project
from apps.rollouts.models import Group
from apps.runs.models import Run
from apps.tasksets.models import Taskset
from apps.tasksets.rows import TaskRow, user_message
from apps.tasksets.storing import Origin, store_taskset

Drawn = tuple[str, int]  # (slug of the taskset, index of the task)


def taskset_of(project: Project, slug: str, size: int) -> Taskset:
    """Create a taskset whose levels fall as the index rises."""
    rows = (
        TaskRow(user_message(f"{slug} {n}"), {"sorted": str(n)}, {"level": size - n})
        for n in range(size)
    )
    return store_taskset(Origin(project, slug, slug, "test"), rows)


def drawn(run: Run, groups: int) -> list[Drawn]:
    """Open the run's next groups and return their tasksets and task indexes."""
    opened = Group.open(run, "e", 60, groups, run.published_version)
    return [(group.task.taskset.slug, group.task.index) for group in opened]


def turns(shares: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Yield (next taskset, its earlier turns) for each draw.

    Each taskset gains its share as credit, and the one with the most credit pays for all.
    """
    credit = dict.fromkeys(sorted(shares), 0)
    had = dict.fromkeys(shares, 0)
    while True:
        for name in credit:
            credit[name] += shares[name]
        who = max(credit, key=lambda name: credit[name])  # the first of those with the most credit
        credit[who] -= sum(shares.values())
        yield who, had[who]
        had[who] += 1


def expected(
    shares: Mapping[str, int], draws: int, index: Callable[[str, int], int]
) -> list[Drawn]:
    """Return the first draws, where `index(slug, nth)` is the nth task drawn from a taskset."""
    going = turns(shares)
    return [(who, index(who, nth)) for who, nth in (next(going) for _ in range(draws))]
