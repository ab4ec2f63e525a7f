"""Tasks that people ask for come first, in the order of asking; a seeded shuffle fills the rest."""

from collections.abc import Callable, Sequence
from typing import TypeVar

Drawn = TypeVar("Drawn")


def draw_for_people(
    draws: Sequence[int],
    requested: Sequence[Drawn],
    served: int,
    shuffled: Callable[[Sequence[int]], Sequence[Drawn]],
) -> list[Drawn]:
    """Return the tasks that these draws take, one after another.

    - `requested`: the requested tasks that were not drawn yet, in their order. The first draws take
      them.
    - `served`: how many earlier draws took a requested task. The shuffle goes on where it stopped,
      so no task of it is skipped.
    - `shuffled`: returns the tasks of draws that take no requested task.
    """
    first = list(requested[: len(draws)])
    requests_served = served + len(first)
    return [*first, *shuffled([draw - requests_served for draw in draws[len(first) :]])]
