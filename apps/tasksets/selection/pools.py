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
    """Return the position, in the order from easy to hard, of the task that a draw takes.

    - `ends`: for each band the position after its last task, rising; the first band begins at 0.
    - `shares`: the share of the draws of each band, in whole numbers.

    A band without a task that may be drawn is skipped. If all bands with a share are empty, the
    draws are shuffled over all other tasks.
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
    band, nth = turn(draw_index, tuple(share for *_, share in usable))
    first, end, _ = usable[band]
    return first + shuffled(
        nth, end - first, seed, {place - first for place in left_out if first <= place < end}
    )


def _count_left(first: int, end: int, left_out: frozenset[int]) -> int:
    return end - first - sum(first <= place < end for place in left_out)
