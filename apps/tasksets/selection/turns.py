"""Whose turn it is when several share the draws: evenly, and known for any draw without counting up to it."""

from functools import lru_cache

Turn = tuple[int, int]


def turn(draw_index: int, shares: tuple[int, ...]) -> Turn:
    """(who has this draw, how many of the draws before were theirs).

    shares   whole numbers, one at least above 0; of each sum(shares) draws in a row, everyone has as many as their share
    Smooth weighted round robin (nginx): shares 2:1:1 give a b c a, not a a b c.
    """
    cycle = _cycle(shares)
    who = cycle[draw_index % len(cycle)]
    return who, before(draw_index, shares, who)


def before(draw_index: int, shares: tuple[int, ...], who: int) -> int:
    """How many of the draws before this one are theirs."""
    cycle = _cycle(shares)
    rounds, place = divmod(draw_index, len(cycle))
    return rounds * shares[who] + cycle[:place].count(who)


@lru_cache(maxsize=64)
def _cycle(shares: tuple[int, ...]) -> tuple[int, ...]:
    """Everyone gains their share each time; who has most is next, and pays the sum."""
    total, credit, order = sum(shares), [0] * len(shares), []
    for _ in range(total):
        credit = [have + share for have, share in zip(credit, shares, strict=True)]
        who = credit.index(max(credit))
        credit[who] -= total
        order.append(who)
    return tuple(order)
