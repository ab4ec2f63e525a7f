"""Kimi k1.5's curriculum: all tasks alike until a step, then the hard ones alone."""

from collections.abc import Iterable

from apps.tasksets.shuffled_draws import draw_position as shuffled


def curriculum_position(
    draw_index: int,
    size: int,
    seed: int,
    left_out: Iterable[int] = (),
    *,
    hard_from_draw: int,
    hard_share: float,
) -> int:
    """Return the position, in the order from easy to hard, of the task that a draw takes.

    - `hard_from_draw`: the first draw that takes only hard tasks. Earlier draws are a seeded
      shuffle of all tasks in each epoch.
    - `hard_share`: the share of the tasks, from the hardest down, that count as hard; at least one.

    If every hard task is left out, the shuffle of all tasks goes on (Kimi Team 2025, arXiv
    2501.12599, curriculum sampling).
    """
    left_out = frozenset(left_out)
    first = min(size - 1, size - round(size * hard_share))
    hard_left_out = {place - first for place in left_out if place >= first}
    if draw_index < hard_from_draw or len(hard_left_out) >= size - first:
        return shuffled(draw_index, size, seed, left_out)
    return first + shuffled(draw_index - hard_from_draw, size - first, seed, hard_left_out)
