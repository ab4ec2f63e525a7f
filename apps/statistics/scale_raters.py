"""Truth and raters' reliability on a scale: each rater has a bias and a noise.

    value of unit u by rater r = truth[u] + bias[r] + noise
    truth ~ N(mean, spread²),   noise ~ N(0, variance[r])

Fitted by expectation maximisation over the truths. A unit that few have judged is shrunk to the
mean, the more so the noisier its judges are. A bias is learned only from units that somebody else
also judged, and is zero for a rater who shares none, because a rater who was shown worse units is
not stricter. Biases sum to zero, weighted by precision, over the raters who share units, since a
scale has no other zero than its raters'. Variances have a weak prior, so that two raters who
happened to agree do not get infinite precision.
"""

from dataclasses import dataclass

import numpy as np

ROUNDS = 500
CLOSE = 1e-7
# Decisions at the common variance that every rater is assumed to have made before.
PRIOR_DECISIONS = 2.0


@dataclass(frozen=True)
class ScaleRaters:
    """A fitted model, in the scale's own unit.

    Raters: `bias`, `variance` (raters,). Units: `truth` and its standard `deviation` (units,).
    `common` is the variance of decisions on one unit, raters taken together.
    """

    bias: np.ndarray
    variance: np.ndarray
    truth: np.ndarray
    deviation: np.ndarray
    common: float
    mean: float
    spread: float


def fit_scale_raters(
    unit: np.ndarray, rater: np.ndarray, values: np.ndarray, *, prior: float = PRIOR_DECISIONS
) -> ScaleRaters:
    """Fit the model to decisions given as three arrays of one length.

    Unit and rater are counted from 0, `values` is a number on the scale.
    """
    raters = int(rater.max()) + 1
    units = int(unit.max()) + 1
    values = np.asarray(values, dtype=float)
    decisions = np.bincount(rater, minlength=raters)
    shared = _shared(unit, rater, units)
    compared = np.bincount(rater[shared[unit]], minlength=raters)
    common = max(_within(unit, values, units), 1e-6)
    bias = np.zeros(raters)
    variance = np.full(raters, common)
    mean = float(values.mean())
    spread2 = max(float(values.var()), 1e-6)
    before = np.full(units, np.inf)
    for _ in range(ROUNDS):
        truth, doubt = _truths(
            unit, values - bias[rater], 1 / variance[rater], units, mean, spread2
        )
        error = np.where(shared[unit], values - truth[unit], 0.0)
        bias = np.bincount(rater, weights=error, minlength=raters) / np.maximum(compared, 1)
        if shared.any():
            # A bias common to all is the scale's own zero.
            shift = float(np.average(bias, weights=compared / variance))
            bias = bias - shift * (compared > 0)
            truth = truth + shift * shared
        noise = values - truth[unit] - bias[rater]
        squares = np.bincount(rater, weights=noise**2 + doubt[unit], minlength=raters)
        variance = np.maximum((squares + prior * common) / (decisions + prior), 1e-9)
        mean = float(truth.mean())
        spread2 = max(float(((truth - mean) ** 2 + doubt).mean()), 1e-9)
        if np.abs(truth - before).max() < CLOSE:
            break
        before = truth
    return ScaleRaters(bias, variance, truth, np.sqrt(doubt), common, mean, float(np.sqrt(spread2)))


def _shared(unit: np.ndarray, rater: np.ndarray, units: int) -> np.ndarray:
    """Return whether two raters or more have judged each unit, (units,)."""
    once = np.unique(np.stack([unit, rater]), axis=1)[0]
    return np.bincount(once, minlength=units) > 1


def _truths(
    unit: np.ndarray,
    unbiased: np.ndarray,
    precision: np.ndarray,
    units: int,
    mean: float,
    spread2: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return each unit's expected truth and its variance, (units,)."""
    total = np.bincount(unit, weights=precision, minlength=units) + 1 / spread2
    weighted = np.bincount(unit, weights=precision * unbiased, minlength=units)
    return (weighted + mean / spread2) / total, 1 / total


def _within(unit: np.ndarray, values: np.ndarray, units: int) -> float:
    """Return the variance of decisions on one unit.

    If no unit was judged twice, it is half the variance of all decisions.
    """
    count = np.bincount(unit, minlength=units)
    degrees_of_freedom = int((count[count > 0] - 1).sum())
    if not degrees_of_freedom:
        return float(values.var()) / 2
    means = np.bincount(unit, weights=values, minlength=units) / np.maximum(count, 1)
    squares = (values - means[unit]) ** 2
    return float(squares.sum() / degrees_of_freedom)
