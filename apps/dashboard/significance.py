"""Whether runs differ by more than their seeds: intervals of the difference of two means, of few values each.

Welch's interval takes each run's figure as one draw of a normal distribution, with a spread of its own for each side
(B. L. Welch, Biometrika 34 (1947)); the bootstrap takes nothing for granted but that the seeds stand for those that were not tried,
and is too narrow for few of them.
"""

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

import numpy as np

from apps.runs.models import Run

SHARE = 0.95
DRAWS = 4_000
PRECISION = 1e-12


@dataclass(frozen=True)
class Seeds:
    """Runs whose configurations differ in their seed alone, and what each of them reached."""

    runs: tuple[Run, ...]
    values: tuple[float, ...]

    @property
    def name(self) -> str:
        return self.runs[0].slug if len(self.runs) == 1 else f"{self.runs[0].slug} + {len(self.runs) - 1}"

    @property
    def mean(self) -> float:
        return fmean(self.values)

    @property
    def spread(self) -> float | None:
        return math.sqrt(variance(self.values)) if len(self.values) > 1 else None


@dataclass(frozen=True)
class Versus:
    """`difference`: the mean of `one` less that of `other`. Without two seeds on each side there is no interval."""

    one: Seeds
    other: Seeds
    difference: float
    welch: tuple[float, float] | None
    bootstrap: tuple[float, float] | None
    p: float | None

    @property
    def is_clear(self) -> bool:
        """Whether Welch's interval leaves out 0."""
        return self.welch is not None and not self.welch[0] <= 0 <= self.welch[1]


def by_seed(runs: Sequence[Run], values: dict[int, float]) -> list[Seeds]:
    """Runs that have a value (by id), put together where nothing but the seed tells them apart."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        if run.pk in values:
            same = json.dumps({"project": run.project_id, **run.config, "seed": None}, sort_keys=True)
            found.setdefault(same, []).append(run)
    return [Seeds(tuple(group), tuple(values[run.pk] for run in group)) for group in found.values()]


def against_each_other(groups: Sequence[Seeds]) -> list[Versus]:
    return [versus(one, other) for one, other in itertools.combinations(groups, 2)]


def versus(one: Seeds, other: Seeds) -> Versus:
    difference = one.mean - other.mean
    if min(len(one.values), len(other.values)) < 2:
        return Versus(one, other, difference, None, None, None)
    interval, p = welch(one.values, other.values)
    return Versus(one, other, difference, interval, bootstrap(one.values, other.values), p)


def welch(one: Sequence[float], other: Sequence[float], share: float = SHARE) -> tuple[tuple[float, float], float]:
    """Interval of the difference of the means, and the chance of so large a one where there is none (two-sided)."""
    difference, parts = fmean(one) - fmean(other), [variance(values) / len(values) for values in (one, other)]
    error = math.sqrt(sum(parts))
    if error == 0:  # every seed gave the same figure: nothing is known of chance
        return (difference, difference), 1.0 if difference == 0 else 0.0
    degrees = sum(parts) ** 2 / sum(part**2 / (len(values) - 1) for part, values in zip(parts, (one, other), strict=True))
    half = t_quantile((1 + share) / 2, degrees) * error
    return (difference - half, difference + half), t_outside(abs(difference) / error, degrees)


def bootstrap(one: Sequence[float], other: Sequence[float], share: float = SHARE, draws: int = DRAWS) -> tuple[float, float]:
    """Percentile interval of the difference of the means, each side drawn again with replacement; the same at every look."""
    random = np.random.default_rng(0)
    means = [random.choice(np.asarray(values), (draws, len(values))).mean(axis=1) for values in (one, other)]
    low, high = np.quantile(means[0] - means[1], [(1 - share) / 2, (1 + share) / 2])
    return float(low), float(high)


def t_outside(t: float, degrees: float) -> float:
    """Chance that Student's t is further from 0 than `t`: the regularised incomplete beta function I_x(degrees/2, 1/2)."""
    x, a, b = degrees / (degrees + t * t), degrees / 2, 0.5
    if x >= 1:
        return 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1 - front * _fraction(1 - x, b, a) / b


def t_quantile(share: float, degrees: float) -> float:
    """Where Student's t lies below with this chance, at least a half; by halving."""
    low, high = 0.0, 1.0
    while 1 - t_outside(high, degrees) / 2 < share:
        high *= 2
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        low, high = (middle, high) if 1 - t_outside(middle, degrees) / 2 < share else (low, middle)
    return (low + high) / 2


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function (DLMF 8.17.22), from its front, two of its terms at a time."""
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d, c = 1 / (1 + term * d), 1 + term / c
            value *= c * d
        if abs(c * d - 1) < PRECISION:
            break
    return value
