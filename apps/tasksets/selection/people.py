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
    """Return the tasks that these draws, one after another, take.

    asked      those that are asked for and not drawn yet, in their order: the first draws take them
    served     how many of the draws before took one that was asked for; so the shuffle leaves no
    task out for them shuffled   the tasks that these draws take where nobody asks
    """
    first = list(requested[: len(draws)])
    gone = served + len(first)
    return [*first, *shuffled([draw - gone for draw in draws[len(first) :]])]
