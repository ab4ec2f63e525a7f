"""Whether runs differ by more than their seeds: intervals of the difference of two means, of few values each.

Welch's interval takes each run's figure as one draw of a normal distribution, with a spread of its own for each side
(B. L. Welch, Biometrika 34 (1947)); the bootstrap takes nothing for granted but that the seeds stand for those that were not tried,
and is too narrow for few of them.
"""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

import numpy as np

from apps.runs.models import Run

SHARE = 0.95
DRAWS = 4_000
PRECISION = 1e-12


@dataclass(frozen=True)
class Seeds:
    """Runs whose configurations differ in their seed alone. `values`: what each seed reached; of one that ran twice, the mean."""

    runs: tuple[Run, ...]
    values: tuple[float, ...]

    @classmethod
    def of(cls, runs: Sequence[Run], values: Mapping[int, float]) -> "Seeds":
        """Of those of the runs that have a value (by id)."""
        known = tuple(run for run in runs if run.pk in values)
        by_seed: dict[int, list[float]] = {}
        for run in known:
            by_seed.setdefault(run.config["seed"], []).append(values[run.pk])
        return cls(known, tuple(map(fmean, by_seed.values())))

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
    """`difference`: the mean of `one` less that of `other`, both at the update `step`; None: whatever their updates.

    There is no interval without two seeds on each side, nor where all seeds of each side reached the same: `why_none` says so.
    """

    one: Seeds
    other: Seeds
    difference: float
    welch: tuple[float, float] | None
    bootstrap: tuple[float, float] | None
    p: float | None
    step: int | None = 0

    @property
    def why_none(self) -> str:
        if self.welch:
            return ""
        if min(len(self.one.values), len(self.other.values)) < 2:
            return "one seed tells nothing of chance: run each with two seeds or more"
        return "the seeds of each side reached the same, so their spread tells nothing of chance"

    @property
    def is_clear(self) -> bool:
        """Whether Welch's interval leaves out 0."""
        return self.welch is not None and not self.welch[0] <= 0 <= self.welch[1]


def by_seed(runs: Sequence[Run]) -> list[list[Run]]:
    """The runs put together where nothing but the seed tells them apart."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        same = json.dumps({"project": run.project_id, **run.config, "seed": None}, sort_keys=True)
        found.setdefault(same, []).append(run)
    return list(found.values())


def reached(groups: Sequence[Sequence[Run]], values: Mapping[int, Mapping[int, float]]) -> list[Seeds]:
    """Each group at the last update that all of its runs have made. `values`: by update, by run; one without any is left out."""
    found = [Seeds.of(group, values.get(_common(group), {})) for group in groups]
    return [seeds for seeds in found if seeds.values]


def against_each_other(groups: Sequence[Sequence[Run]], values: Mapping[int, Mapping[int, float]]) -> list[Versus]:
    """Each two groups at the last update that the runs of both have made: a run that began later says less of where it leads."""
    found = []
    for one, other in itertools.combinations(groups, 2):
        step = _common([*one, *other])
        sides = [Seeds.of(side, values.get(step, {})) for side in (one, other)]
        if all(side.values for side in sides):
            found.append(versus(*sides, step))
    return found


def _common(runs: Sequence[Run]) -> int:
    return min(run.step for run in runs)


def versus(one: Seeds, other: Seeds, step: int = 0) -> Versus:
    difference = one.mean - other.mean
    found = welch(one.values, other.values)
    if found is None:
        return Versus(one, other, difference, None, None, None, step)
    return Versus(one, other, difference, found[0], bootstrap(one.values, other.values), found[1], step)


def welch(one: Sequence[float], other: Sequence[float], share: float = SHARE) -> tuple[tuple[float, float], float] | None:
    """Interval of the difference of the means, and the chance of so large a one where there is none (two-sided).

    None where a side has one value, or neither has a spread: values that are all alike tell nothing of chance.
    """
    if min(len(one), len(other)) < 2:
        return None
    difference, parts = fmean(one) - fmean(other), [variance(values) / len(values) for values in (one, other)]
    error = math.sqrt(sum(parts))
    if error == 0:
        return None
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
