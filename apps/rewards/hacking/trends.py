"""Test whether a curve rises or falls more than chance, by a line through the update means.

The updates are the observations, not the replies: what one update's policy does is common to all of
its replies, and counting them one by one would find a trend in every wobble.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

MIN_UPDATES = 8  # updates


@dataclass(frozen=True)
class Trend:
    """Ends of the fitted line, and the interval of its change over all updates."""

    first: float
    last: float
    low: float
    high: float

    @property
    def change(self) -> float:
        return self.last - self.first

    @property
    def rises(self) -> bool:
        return self.low > 0

    @property
    def falls(self) -> bool:
        return self.high < 0


def trend(points: Sequence[tuple[float, float]], sure: float) -> Trend | None:
    """Fit a line to (step, mean) by least squares; None for too few updates.

    Each bound is passed by chance with probability 1 − sure.
    """
    count = len(points)
    if count < MIN_UPDATES:
        return None
    middle = sum(x for x, _ in points) / count
    mean = sum(y for _, y in points) / count
    spread = sum((x - middle) ** 2 for x, _ in points)
    slope = sum((x - middle) * (y - mean) for x, y in points) / spread
    residual = sum((y - mean - slope * (x - middle)) ** 2 for x, y in points)
    width = points[-1][0] - points[0][0]
    half = students(sure, count - 2) * sqrt(residual / (count - 2) / spread) * width
    change = slope * width
    first = mean + slope * (points[0][0] - middle)
    return Trend(first, first + change, change - half, change + half)


def students(share: float, freedom: int) -> float:
    """Return a quantile of Student's t, for six degrees of freedom or more.

    It is Fisher and Cornish's expansion (within 1 % up to .999).
    """
    z = NormalDist().inv_cdf(share)
    n = freedom
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
    )


def tie(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return Pearson's correlation; None if a side does not vary."""
    if len(pairs) < 2:
        return None
    mean_x = sum(x for x, _ in pairs) / len(pairs)
    mean_y = sum(y for _, y in pairs) / len(pairs)
    products = sum((x - mean_x) * (y - mean_y) for x, y in pairs)
    squares_x = sum((x - mean_x) ** 2 for x, _ in pairs)
    squares_y = sum((y - mean_y) ** 2 for _, y in pairs)
    size = sqrt(squares_x * squares_y)
    return products / size if size > 1e-12 else None
