"""Elo ratings: each result moves winner and loser by how surprising it was.

They depend on the order of the results. A. E. Elo, "The Rating of Chessplayers, Past and Present"
(1978): a lead of 400 points is ten to one.
"""

from collections.abc import Iterable

import numpy as np

START = 1500.0
STEP = 32.0
SCALE = 400.0


def compute_elo(
    count: int,
    games: Iterable[tuple[int, int | None, float]],
    *,
    step: float = STEP,
    start: float = START,
) -> np.ndarray:
    """Return points (count,) after games (one, other, result of the one) in their order.

    A result is 1 won, 1/2 a tie, 0 lost. `other` None is a typical opponent, whose points stay at
    `start`.
    """
    points = np.full(count, start)
    for one, other, result in games:
        surprise = step * (
            result - expected(points[one], start if other is None else points[other])
        )
        points[one] += surprise
        if other is not None:
            points[other] -= surprise
    return points


def expected(one: float | np.ndarray, other: float) -> float | np.ndarray:
    """Return the expected result of `one` against `other`, 0 to 1."""
    return 1 / (1 + 10 ** ((other - one) / SCALE))
