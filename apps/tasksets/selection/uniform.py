"""Uniform sampling with replacement: any task, without epochs."""

from collections.abc import Iterable

from apps.tasksets.selection.stock import Stock


def uniform_position(draw_index: int, size: int, seed: int, left_out: Iterable[int] = ()) -> int:
    """Return the index of the task that a draw takes, each that is not left out as likely.

    Raises ValueError where none is left.
    """
    return Stock(size, left_out).anyone(seed, draw_index)
