"""Coefficients of raters' agreement: percent, Cohen's, Fleiss' and Krippendorff's.

All but Cohen's use a table of counts, (units, values): how many raters gave unit u the value v. The
table does not say who gave which value, and allows missing decisions: units with fewer than two are
ignored.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from apps.statistics.statistic import ALL_EQUAL, NOTHING_TWICE, Statistic, undefined

Level = Literal["nominal", "ordinal", "interval"]


def count_values(units: Sequence, values: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return decisions (unit i got value i) as counts (units, values), and ascending values."""
    _, unit = np.unique(np.asarray(units), return_inverse=True)
    kinds, value = np.unique(np.asarray(values, dtype=float), return_inverse=True)
    counts = np.zeros((unit.max(initial=-1) + 1, len(kinds)))
    np.add.at(counts, (unit, value), 1)
    return counts, kinds


def percent_agreement(counts: np.ndarray) -> Statistic:
    """Return the share of pairs of decisions on one unit that are equal.

    All units weigh the same.
    """
    counts = _decided_twice(counts)
    if not len(counts):
        return undefined(NOTHING_TWICE)
    return Statistic(float(_agreeing(counts).mean()), *_size(counts))


def cohen_kappa(
    first: Sequence[int],
    second: Sequence[int],
    kinds: int,
    weights: Literal["linear", "quadratic"] | np.ndarray | None = None,
) -> Statistic:
    """Return Cohen's kappa of two raters' decisions on the same units, each one of 0 … kinds − 1.

    `weights` make a disagreement of i and j count |i − j|, its square, or the entry of a table
    (kinds, kinds) with a zero diagonal. J. Cohen, Educational and Psychological Measurement 20
    (1960); weighted: Psychological Bulletin 70 (1968).
    """
    table = np.zeros((kinds, kinds))
    np.add.at(table, (np.asarray(first, dtype=int), np.asarray(second, dtype=int)), 1)
    return kappa_of_table(table, weights)


def kappa_of_table(
    table: np.ndarray, weights: Literal["linear", "quadratic"] | np.ndarray | None = None
) -> Statistic:
    """Return Cohen's kappa from the joint table (kinds, kinds).

    Rows are the first rater's kinds, columns the second's.
    """
    table = np.asarray(table, dtype=float)
    units = table.sum()
    if not units:
        return undefined(NOTHING_TWICE)
    weight = _disagreement(len(table), weights)
    by_chance = (weight * np.outer(table.sum(1), table.sum(0))).sum() / units
    if not by_chance:
        return undefined(ALL_EQUAL, round(units), round(2 * units))
    return Statistic(float(1 - (weight * table).sum() / by_chance), round(units), round(2 * units))


def _disagreement(
    kinds: int, weights: Literal["linear", "quadratic"] | np.ndarray | None
) -> np.ndarray:
    if isinstance(weights, np.ndarray):
        return weights
    apart = np.abs(np.subtract.outer(np.arange(kinds), np.arange(kinds))).astype(float)
    return {None: apart > 0, "linear": apart, "quadratic": apart**2}[weights].astype(float)


def fleiss_kappa(counts: np.ndarray) -> Statistic:
    """Return Fleiss' kappa of many raters, nominal.

    If units have different numbers of decisions, each unit counts the same in the observed
    agreement and each decision in the expected one. J. L. Fleiss, Psychological Bulletin 76 (1971).
    """
    counts = _decided_twice(counts)
    if not len(counts):
        return undefined(NOTHING_TWICE)
    share = counts.sum(0) / counts.sum()
    by_chance = float((share**2).sum())
    if (share > 0).sum() < 2:
        return undefined(ALL_EQUAL, *_size(counts))
    kappa = (_agreeing(counts).mean() - by_chance) / (1 - by_chance)
    return Statistic(float(kappa), *_size(counts))


def krippendorff_alpha(
    counts: np.ndarray,
    kinds: Sequence[float] | np.ndarray,
    level: Level,
    times: np.ndarray | None = None,
) -> Statistic:
    """Return Krippendorff's alpha, 1 − observed / expected disagreement, with missing decisions.

    `kinds` (values,) are the values of the columns of `counts` (units, values), ascending; `times`
    (units,) is how often each row occurs, if not once, which saves time when many units are equal.
    K. Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011).
    """
    twice = counts.sum(1) >= 2
    counts = counts[twice]
    times = np.ones(twice.sum()) if times is None else times[twice]
    if not times.sum():
        return undefined(NOTHING_TWICE)
    shared = counts * (times / (counts.sum(1) - 1))[:, None]
    together = shared.T @ counts - np.diag(shared.sum(0))  # coincidences, (values, values)
    totals = times @ counts
    size = round(times.sum()), round(totals.sum())
    apart = _distance(totals, np.asarray(kinds, dtype=float), level)
    expected = (np.outer(totals, totals) * apart).sum() / (totals.sum() - 1)
    if not expected:
        return undefined(ALL_EQUAL, *size)
    return Statistic(float(1 - (together * apart).sum() / expected), *size)


def _distance(totals: np.ndarray, kinds: np.ndarray, level: Level) -> np.ndarray:
    """Return the squared difference of two values at this level of measurement, (kinds, kinds)."""
    if level == "nominal":
        return 1.0 - np.eye(len(kinds))
    # Ordinal: how many decisions lie from one value to the other, half of those at both ends.
    place = np.cumsum(totals) - totals / 2 if level == "ordinal" else kinds
    return np.subtract.outer(place, place) ** 2


def _decided_twice(counts: np.ndarray) -> np.ndarray:
    return counts[counts.sum(1) >= 2]


def _agreeing(counts: np.ndarray) -> np.ndarray:
    """Return, for each unit, the share of pairs of its decisions that are equal, (units,)."""
    per_unit = counts.sum(1)
    return ((counts**2).sum(1) - per_unit) / (per_unit * (per_unit - 1))


def _size(counts: np.ndarray) -> tuple[int, int]:
    return len(counts), round(counts.sum())
