"""What people ask for comes first, in the order in which they asked; between, a seeded shuffle goes on where it stood."""

from collections.abc import Container, Sequence

from apps.tasksets.drawing import position as shuffled


def drawn(
    draws: Sequence[int], asked: Sequence[int], served: int, size: int, seed: int, left_out: Container[int] = ()
) -> list[int]:
    """Indexes of the tasks that these draws, one after another, take.

    asked    the tasks that are asked for and not drawn yet, in their order: the first draws take them
    served   how many of the draws before took one that was asked for; so the shuffle leaves no task out for them
    """
    first = list(asked[: len(draws)])
    gone = served + len(first)
    return [*first, *(shuffled(draw - gone, size, seed, left_out) for draw in draws[len(first) :])]
