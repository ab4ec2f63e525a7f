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
    """Return points (count,) after games (player, opponent, result of the player) in their order.

    A result is 1 won, 1/2 a tie, 0 lost. `opponent` None is a typical opponent, whose points stay
    at `start`.
    """
    points = np.full(count, start)
    for player, opponent, result in games:
        surprise = step * (
            result - expected(points[player], start if opponent is None else points[opponent])
        )
        points[player] += surprise
        if opponent is not None:
            points[opponent] -= surprise
    return points


def expected(points: float | np.ndarray, opponent_points: float) -> float | np.ndarray:
    """Return the expected result, 0 to 1, of a player against an opponent with these points."""
    return 1 / (1 + 10 ** ((opponent_points - points) / SCALE))
