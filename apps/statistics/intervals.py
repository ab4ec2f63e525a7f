"""Confidence intervals: a bootstrap over decisions, and Wilson's interval for shares."""

from collections.abc import Callable
from math import sqrt

import numpy as np

Z95 = 1.959963984540054
DRAWS = 1000
MIN_DEFINED_SHARE = 0.5  # the share of samples for which the metric must be defined


def bootstrap_interval(
    metric: Callable[[np.ndarray], float | None],
    decisions: int,
    *,
    share: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> tuple[float, float] | None:
    """Return the percentile interval of `metric(rows)` over decisions resampled with replacement.

    Rows are indices, (decisions,). Samples for which the metric is undefined (None) are left out.
    Returns None if those are the majority, or if there is only one decision. Deterministic by
    `seed`.
    """
    if decisions < 2:
        return None
    random = np.random.default_rng(seed)
    drawn = (metric(random.integers(decisions, size=decisions)) for _ in range(draws))
    values = [value for value in drawn if value is not None]
    if len(values) < MIN_DEFINED_SHARE * draws:
        return None
    low, high = np.quantile(values, [(1 - share) / 2, (1 + share) / 2])
    return float(low), float(high)


def wilson(hits: float, of: float, z: float = Z95) -> tuple[float, float] | None:
    """Return Wilson's interval of a share, which stays within 0 and 1 also for few decisions.

    Returns None if `of` is 0. E. B. Wilson, JASA 22 (1927).
    """
    if of <= 0:
        return None
    share = hits / of
    middle = share + z * z / (2 * of)
    half = z * sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return max((middle - half) / (1 + z * z / of), 0.0), min(
        (middle + half) / (1 + z * z / of), 1.0
    )
