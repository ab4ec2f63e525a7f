"""The tasks in their order, over and over."""

from collections.abc import Container


def position(draw_index: int, size: int, left_out: Container[int] = ()) -> int:
    """Index of the task that a draw takes: draw mod size, or the next one that is not left out; one at least must be left."""
    place = draw_index % size
    while place in left_out:
        place = (place + 1) % size
    return place
