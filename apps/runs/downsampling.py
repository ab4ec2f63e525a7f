"""Downsampling of a window of a run's curves to a few hundred buckets, without losing peaks.

Each bucket has mean, minimum and maximum.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.db import connection

from apps.runs.models import Run
from apps.runs.models.spans import FACTOR, LEVELS

ROUNDED = (
    4 / 3
    # a bucket may be that much wider where the next level's spans then serve: eight times fewer
    # rows are read
)


class Bucket(NamedTuple):
    """Summary of a metric over some steps, of which `count` have a value."""

    count: int  # type: ignore[assignment]  # instead of a tuple's method
    mean: float
    low: float
    high: float

    # A sum of summaries, not the longer tuple.
    def __add__(self, other: "Bucket") -> "Bucket":  # type: ignore[override]
        count = self.count + other.count
        mean = self.mean * (self.count / count) + other.mean * (other.count / count)
        low = min(self.low, other.low)
        high = max(self.high, other.high)
        return Bucket(count, mean, low, high)


@dataclass(frozen=True)
class DownsampledCurves:
    """Downsampled curves; `wide`: steps of a bucket (1: every step is there).

    `series`: metric → the last step of a bucket → the bucket.

    `since` < step <= `until`: what was read, which begins where a bucket does.
    """

    since: int
    until: int
    wide: int
    series: dict[str, dict[int, Bucket]] = field(default_factory=dict)

    @property
    def steps(self) -> list[int]:
        return sorted({step for buckets in self.series.values() for step in buckets})


def thinned(
    run: Run, names: Iterable[str], since: int, until: int, points: int
) -> DownsampledCurves:
    """Return the steps `since` < step <= `until` in at most `points` + 1 buckets.

    One query, which reads few rows of each metric: buckets are made of the widest stored spans that
    fit into them, and of single points where no span is stored yet.
    """
    until = max(0, min(until, run.step))
    wide = max(1, -(-(until - since) // points))
    level = max(
        level for level in range(LEVELS + 1) if FACTOR**level <= (wide * ROUNDED if wide > 1 else 1)
    )
    unit = FACTOR**level
    wide = -(-wide // unit) * unit
    since = max(0, since) // wide * wide
    curves = DownsampledCurves(since, until, wide)
    for name, bucket, *values in _rows(run, list(names), curves, level):
        curves.series.setdefault(name, {})[min((bucket + 1) * wide, until)] = Bucket._make(values)
    return curves


def _rows(
    run: Run, names: list[str], curves: DownsampledCurves, level: int
) -> list[tuple[str, int, int, float, float, float]]:
    """Return (name, number of the bucket, count, mean, low, high)."""
    parts = []
    places: dict[str, Any] = {"run": run.pk, "names": names, "wide": curves.wide}
    read = curves.since
    for n in range(level, -1, -1):
        until = curves.until // FACTOR**n * FACTOR**n
        if until > read:
            parts.append((SPANS if n else POINTS).format(n=n))
            places |= {f"since{n}": read, f"until{n}": until, f"level{n}": n}
            read = until
    if not parts or not names:
        return []
    with connection.cursor() as cursor:
        cursor.execute(BUCKETS.format(parts=" UNION ALL ".join(parts)), places)
        return list(cursor.fetchall())


# Divided before they are summed: the sum of finite numbers need not be one.
BUCKETS = """
    SELECT name, (step - 1) / %(wide)s AS bucket, sum(count)::int,
           sum(mean * (count / %(wide)s::float8)) * (%(wide)s::float8 / sum(count)), min(low),
               max(high)
    FROM ({parts}) AS parts GROUP BY name, bucket ORDER BY name, bucket"""
POINTS = """
    SELECT name, step, 1 AS count, value AS mean, value AS low, value AS high FROM runs_metric
    WHERE run_id = %(run)s AND name = ANY(%(names)s) AND step > %(since{n})s
        AND step <= %(until{n})s"""
SPANS = """
    SELECT name, first AS step, count, mean, low, high FROM runs_metricspan
    WHERE run_id = %(run)s AND name = ANY(%(names)s) AND level = %(level{n})s
      AND first > %(since{n})s AND first <= %(until{n})s"""
