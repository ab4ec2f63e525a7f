"""Bands of difficulty that share the draws, each with its own seeded shuffle per epoch."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from apps.tasksets.selection.turns import turn
from apps.tasksets.shuffled_draws import draw_position as shuffled


def pool_position(
    draw_index: int,
    ends: Sequence[int],
    shares: Sequence[int],
    seed: int,
    left_out: Iterable[int] = (),
) -> int:
    """Place, in the order from easy to hard, of the task that a draw takes.

    ends     of each band, the place after its last task, rising; the first band begins at 0 shares
    of the draws, whole numbers, by band A band without a task that may be drawn has no turn; where
    no band with a share has one, all others go on.
    """
    left_out = frozenset(left_out)
    bands = [
        (first, end, share)
        for (first, end), share in zip(pairwise([0, *ends]), shares, strict=True)
    ]
    usable = [
        (first, end, share)
        for first, end, share in bands
        if share and _count_left(first, end, left_out)
    ]
    if not usable:
        return shuffled(draw_index, ends[-1], seed, left_out)
    who, nth = turn(draw_index, tuple(share for *_, share in usable))
    first, end, _ = usable[who]
    return first + shuffled(
        nth, end - first, seed, {place - first for place in left_out if first <= place < end}
    )


def _count_left(first: int, end: int, left_out: frozenset[int]) -> int:
    return end - first - sum(first <= place < end for place in left_out)
