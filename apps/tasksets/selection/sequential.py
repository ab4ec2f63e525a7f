"""The tasks in their order, over and over."""

from collections.abc import Container


def sequential_position(draw_index: int, size: int, left_out: Container[int] = ()) -> int:
    """Return the index of a draw's task: draw mod size, or the next one that is not excluded.

    At least one task must be left.
    """
    place = draw_index % size
    while place in left_out:
        place = (place + 1) % size
    return place
