"""Whether runs differ by more than their seeds: intervals of the difference of two means.

Each side has few values. Welch's interval treats each run's metric as a sample of a normal
distribution, with a variance of its own for each side (B. L. Welch, Biometrika 34 (1947)); the
bootstrap assumes only that the seeds represent those that were not tried, and is too narrow for few
of them.
"""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

import mpmath
import numpy as np

from apps.runs.models import Run

SHARE = 0.95
DRAWS = 4_000
PRECISION = 1e-12


@dataclass(frozen=True)
class Seeds:
    """Runs whose configurations differ in their seed alone.

    `values` are the results by seed; of a seed that ran twice, the mean.
    """

    runs: tuple[Run, ...]
    values: tuple[float, ...]

    @classmethod
    def of(cls, runs: Sequence[Run], values: Mapping[int, float]) -> "Seeds":
        """Build the group from those runs that have a value (by id)."""
        measured = tuple(run for run in runs if run.pk in values)
        by_seed: dict[int, list[float]] = {}
        for run in measured:
            by_seed.setdefault(run.config["seed"], []).append(values[run.pk])
        return cls(measured, tuple(map(fmean, by_seed.values())))

    @property
    def name(self) -> str:
        return (
            self.runs[0].slug
            if len(self.runs) == 1
            else f"{self.runs[0].slug} + {len(self.runs) - 1}"
        )

    @property
    def mean(self) -> float:
        return fmean(self.values)

    @property
    def spread(self) -> float | None:
        return math.sqrt(variance(self.values)) if len(self.values) > 1 else None


@dataclass(frozen=True)
class Versus:
    """The `difference` of the means of `one` and `other` at the step `step`.

    `step` is None if steps do not matter. There is no interval without two seeds on each side,
    nor if all seeds of each side have the same result: `why_none` gives the reason.
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
            return "not enough seeds: use at least two on each side"
        return "no variation between seeds, so significance can't be computed"

    @property
    def is_clear(self) -> bool:
        """Tell whether Welch's interval excludes 0."""
        return self.welch is not None and not self.welch[0] <= 0 <= self.welch[1]


def by_seed(runs: Sequence[Run]) -> list[list[Run]]:
    """Group the runs whose configurations differ in their seed alone."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        key = json.dumps({"project": run.project_id, **run.config, "seed": None}, sort_keys=True)
        groups.setdefault(key, []).append(run)
    return list(groups.values())


def seeds_at_last_update(
    groups: Sequence[Sequence[Run]], values: Mapping[int, Mapping[int, float]]
) -> list[Seeds]:
    """Return each group at the last step that all of its runs have made.

    `values` are by step and run; a group without any is left out.
    """
    all_seeds = [Seeds.of(group, values.get(_common(group), {})) for group in groups]
    return [seeds for seeds in all_seeds if seeds.values]


def against_each_other(
    groups: Sequence[Sequence[Run]], values: Mapping[int, Mapping[int, float]]
) -> list[Versus]:
    """Compare every two groups at the last step that all runs of both have completed.

    Later steps of the longer runs are not compared with earlier ones of the shorter runs.
    """
    comparisons = []
    for group, other_group in itertools.combinations(groups, 2):
        step = _common([*group, *other_group])
        seeds = Seeds.of(group, values.get(step, {}))
        other_seeds = Seeds.of(other_group, values.get(step, {}))
        if seeds.values and other_seeds.values:
            comparisons.append(versus(seeds, other_seeds, step))
    return comparisons


def _common(runs: Sequence[Run]) -> int:
    return min(run.step for run in runs)


def versus(first: Seeds, second: Seeds, step: int = 0) -> Versus:
    difference = first.mean - second.mean
    result = welch(first.values, second.values)
    if result is None:
        return Versus(first, second, difference, None, None, None, step)
    return Versus(
        first,
        second,
        difference,
        result[0],
        bootstrap_difference(first.values, second.values),
        result[1],
        step,
    )


def welch(
    first: Sequence[float], second: Sequence[float], share: float = SHARE
) -> tuple[tuple[float, float], float] | None:
    """Return the interval of the difference of the means, and the two-sided p value.

    Returns None if a side has one value, or neither has a variance: equal values tell nothing about
    chance.
    """
    if min(len(first), len(second)) < 2:
        return None
    difference = fmean(first) - fmean(second)
    parts = [variance(values) / len(values) for values in (first, second)]
    error = math.sqrt(sum(parts))
    if error == 0:
        return None
    degrees = sum(parts) ** 2 / sum(
        part**2 / (len(values) - 1) for part, values in zip(parts, (first, second), strict=True)
    )
    half = t_quantile((1 + share) / 2, degrees) * error
    return (difference - half, difference + half), t_outside(abs(difference) / error, degrees)


def bootstrap_difference(
    first: Sequence[float], second: Sequence[float], share: float = SHARE, draws: int = DRAWS
) -> tuple[float, float]:
    """Return the percentile interval of the difference of the means.

    Each side is resampled with replacement; the random numbers are fixed, so the result is
    reproducible.
    """
    random = np.random.default_rng(0)
    means = [
        random.choice(np.asarray(values), (draws, len(values))).mean(axis=1)
        for values in (first, second)
    ]
    low, high = np.quantile(means[0] - means[1], [(1 - share) / 2, (1 + share) / 2])
    return float(low), float(high)


def t_outside(t: float, degrees: float) -> float:
    """Return the two-sided tail probability of Student's t.

    It is the regularized incomplete beta function I_x(degrees / 2, 1 / 2) at
    x = degrees / (degrees + t²) (DLMF 8.17).
    """
    x = degrees / (degrees + t * t)
    return float(mpmath.betainc(degrees / 2, 0.5, 0, x, regularized=True))


def t_quantile(share: float, degrees: float) -> float:
    """Return the quantile of Student's t for a share of at least a half, by bisection."""
    low = 0.0
    high = 1.0
    while 1 - t_outside(high, degrees) / 2 < share:
        high *= 2
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        low, high = (middle, high) if 1 - t_outside(middle, degrees) / 2 < share else (low, middle)
    return (low + high) / 2
