"""Bayesian linear regression of people's ratings on the features of a reply.

Values (stars, thumbs, rubrics) have Gaussian noise; noise and weight scales are estimated from the
data (MacKay 1992, evidence), with weak priors that keep a handful of decisions from determining
them. Comparisons (pairs, rankings, rewrites) use the Plackett–Luce model in the same utility, where
a difference of one star in four means odds of e.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

# utilities 0.25 apart, one star, are ordered rightly with odds of e, like two people on one reply
STEEPNESS = 4.0
# Precision of the prior on weights in units of odds, for comparisons alone.
COMPARED_PRECISION = 20.0
NOISE_GUESS = 0.04
NOISE_COUNTS = 2.0  # variance of a decision before any is seen, and how many decisions that weighs
WEIGHT_GUESS = 0.01
WEIGHT_COUNTS = 2.0  # the same for a weight's variance
ROUNDS = 50
NEWTON_ROUNDS = 50
SETTLED = 1e-7


@dataclass(frozen=True)
class Order:
    """One comparison: `better` is chosen from among itself and `worse` (rows), with a weight.

    A ranking has one for each of its places; a tie is half of each order.
    """

    better: int
    worse: tuple[int, ...]
    weight: float = 1.0


@dataclass(frozen=True)
class Posterior:
    """A Gaussian posterior of the weights around `weights`, for columns minus `centre`.

    `directions` (d, r) are orthonormal, and in each the data add `data_precision` (r,). In every
    other direction there is only the precision of the prior, `prior`.
    """

    centre: np.ndarray
    intercept: float
    weights: np.ndarray
    directions: np.ndarray
    data_precision: np.ndarray
    prior: float
    noise: float
    decisions: int

    def predict(
        self, table: np.ndarray, unknown: np.ndarray | float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation of each row, for its mean, without a rater's noise.

        Unknown words have prior weights.
        """
        x = table - self.centre
        along = x @ self.directions
        beyond = np.maximum((x**2).sum(1) - (along**2).sum(1), 0.0) + unknown
        variance = (
            (along**2 / (self.prior + self.data_precision)).sum(1)
            + beyond / self.prior
            + self.noise / max(1, self.decisions)
        )
        return self.intercept + x @ self.weights, np.sqrt(variance)


@dataclass(frozen=True)
class Decisions:
    """Training data: rows of a table with people's values and their weights, and comparisons.

    `values` and `weights` belong to the first rows; further rows occur only in comparisons.
    """

    table: np.ndarray
    values: np.ndarray
    orders: Sequence[Order] = ()
    weights: np.ndarray | None = None
    counts: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        counts = np.ones(len(self.values)) if self.weights is None else self.weights
        object.__setattr__(self, "counts", counts)


def fit_posterior(decisions: Decisions) -> Posterior:
    """Return the posterior after these decisions."""
    by_value = _from_values(decisions)
    return _with_orders(by_value, decisions) if decisions.orders else by_value


def _from_values(decisions: Decisions) -> Posterior:
    values = decisions.values
    counts = decisions.counts
    n = len(values)
    if not n:
        return _without_values(decisions.table.shape[1])
    table = decisions.table[:n]
    total = counts.sum()
    centre = counts @ table / total
    mean = float(counts @ values / total)
    root = np.sqrt(counts)[:, None]
    x = (table - centre) * root
    y = (values - mean) * root[:, 0]
    directions, spread = _principal(x)
    target = directions.T @ (x.T @ y)
    prior, precision = _precisions(float(y @ y), target, spread, n)
    along = precision * target / (prior + precision * spread)
    return Posterior(
        centre, mean, directions @ along, directions, precision * spread, prior, 1 / precision, n
    )


def _without_values(width: int) -> Posterior:
    """Return the prior of weights (width,) in the utility of comparisons."""
    return Posterior(
        centre=np.zeros(width),
        intercept=0.5,
        weights=np.zeros(width),
        directions=np.zeros((width, 0)),
        data_precision=np.zeros(0),
        prior=COMPARED_PRECISION * STEEPNESS**2,
        noise=NOISE_GUESS,
        decisions=0,
    )


def _precisions(
    squares: float, target: np.ndarray, spread: np.ndarray, n: int
) -> tuple[float, float]:
    """Return the most probable precisions of the weights and of the noise (MacKay 1992).

    `squares` is the sum of the n squared values, `target` and `spread` (r,) are their products with
    the table's directions and the directions' sums of squares.
    """
    prior = 1 / WEIGHT_GUESS
    precision = 1 / NOISE_GUESS
    for _ in range(ROUNDS):
        along = precision * target / (prior + precision * spread)
        settled = float((precision * spread / (prior + precision * spread)).sum())
        missed = float(squares - 2 * along @ target + along**2 @ spread)
        before = prior, precision
        prior = (settled + WEIGHT_COUNTS) / (float(along @ along) + WEIGHT_COUNTS * WEIGHT_GUESS)
        free = max(n - 1 - settled, 0.0)
        precision = (free + NOISE_COUNTS) / (max(missed, 0.0) + NOISE_COUNTS * NOISE_GUESS)
        if np.allclose(before, (prior, precision), rtol=SETTLED):
            break
    return prior, precision


def _principal(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return orthonormal directions (d, r) in which the rows of x spread, and sums of squares (r,).

    x has shape (n, d).
    """
    n, width = x.shape
    if n >= width:
        spread, directions = np.linalg.eigh(x.T @ x)
    else:
        spread, rows = np.linalg.eigh(x @ x.T)
        directions = x.T @ rows / np.sqrt(np.maximum(spread, 1e-300))
    is_nonzero = spread > 1e-9 * max(float(spread[-1]) if len(spread) else 0.0, 1e-9)
    return directions[:, is_nonzero], spread[is_nonzero]


def _with_orders(start: Posterior, decisions: Decisions) -> Posterior:
    """Return Laplace's approximation around the most probable weights.

    It uses Newton's method with the values' posterior as prior.
    """
    width = decisions.table.shape[1]
    precision = (
        start.prior * np.eye(width) + start.directions * start.data_precision @ start.directions.T
    )
    weights = start.weights.copy()
    value = -np.inf
    for _ in range(NEWTON_ROUNDS):
        slope, curvature, fitness = _orders_at(weights, decisions)
        away = weights - start.weights
        now = fitness - away @ precision @ away / 2
        if now - value < SETTLED:
            break
        value = now
        step = np.linalg.solve(precision + curvature, slope - precision @ away)
        weights = weights + _shortened(step, weights, value, start.weights, precision, decisions)
    _, curvature, _ = _orders_at(weights, decisions)
    added, directions = np.linalg.eigh(precision + curvature - start.prior * np.eye(width))
    return Posterior(
        start.centre,
        start.intercept,
        weights,
        directions,
        np.maximum(added, 0.0),
        start.prior,
        start.noise,
        start.decisions,
    )


def _shortened(step, weights, value, centre, precision, decisions) -> np.ndarray:
    """Return the step, halved until it does not make the fit worse."""
    for halvings in range(30):
        tried = weights + step * 0.5**halvings
        away = tried - centre
        if _orders_at(tried, decisions)[2] - away @ precision @ away / 2 >= value:
            return step * 0.5**halvings
    return np.zeros_like(step)


def _orders_at(weights: np.ndarray, decisions: Decisions) -> tuple[np.ndarray, np.ndarray, float]:
    """Return slope (d,), negative curvature (d, d) and value of the comparisons' log-likelihood."""
    slope = np.zeros_like(weights)
    curvature = np.zeros((len(weights), len(weights)))
    value = 0.0
    for order in decisions.orders:
        rows = STEEPNESS * decisions.table[[order.better, *order.worse]]
        utilities = rows @ weights
        highest = utilities.max()
        shares = np.exp(utilities - highest)
        total = shares.sum()
        shares /= total
        mean = shares @ rows
        value += order.weight * (utilities[0] - highest - np.log(total))
        slope += order.weight * (rows[0] - mean)
        off = rows - mean
        curvature += order.weight * (off * shares[:, None]).T @ off
    return slope, curvature, float(value)
