"""Order in which several tasksets share the draws: evenly, and computed without counting."""

from functools import lru_cache

Turn = tuple[int, int]


def turn(draw_index: int, shares: tuple[int, ...]) -> Turn:
    """Return the index of the share that has this draw, and how many earlier draws it had.

    `shares` are whole numbers, at least one of them above 0. Of each sum(shares) draws in a row,
    each index has as many as its share. This is smooth weighted round robin (nginx): shares 2:1:1
    give a b c a, not a a b c.
    """
    cycle = _cycle(shares)
    index = cycle[draw_index % len(cycle)]
    return index, before(draw_index, shares, index)


def before(draw_index: int, shares: tuple[int, ...], index: int) -> int:
    """Return how many of the draws before this one belong to the share at `index`."""
    cycle = _cycle(shares)
    rounds, place = divmod(draw_index, len(cycle))
    return rounds * shares[index] + cycle[:place].count(index)


@lru_cache(maxsize=64)
def _cycle(shares: tuple[int, ...]) -> tuple[int, ...]:
    """Return one cycle of turns by smooth weighted round robin.

    Each one gains its share each time; the one with the largest credit is next, and pays the total.
    """
    total = sum(shares)
    credit = [0] * len(shares)
    order = []
    for _ in range(total):
        credit = [have + share for have, share in zip(credit, shares, strict=True)]
        index = credit.index(max(credit))
        credit[index] -= total
        order.append(index)
    return tuple(order)
