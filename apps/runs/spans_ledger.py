"""Invariants of metric spans, for `manage.py reconcile`."""

from collections.abc import Iterator

from django.db import connection

from apps.runs.models.spans import FACTOR, LEVELS

SHOWN = 20
ROUNDING = 1e-9  # of a mean, relative to the widest value of its span


def metric_spans_match_their_points() -> Iterator[str]:
    """Check that every completed span exists and agrees with the spans or points below it."""
    for level in range(1, LEVELS + 1):
        parameters = {"level": level, "wide": FACTOR**level, "rounding": ROUNDING, "shown": SHOWN}
        with connection.cursor() as cursor:
            cursor.execute(WRONG.format(source=POINTS if level == 1 else SPANS), parameters)
            wrong = cursor.fetchall()
        for run, name, first, stored, counted in wrong:
            place = f"run {run}: {name} of steps {first} to {first + FACTOR**level - 1}"
            yield (
                f"{place}: the span has {stored} values, but there are {counted or 'no'} points"
                if stored
                else f"{place}: the span is missing"
            )


POINTS = (
    "SELECT run_id, name, step, 1 AS count, value AS mean, value AS low, value AS high FROM"
    " runs_metric"
)
SPANS = (
    "SELECT run_id, name, first AS step, count, mean, low, high FROM runs_metricspan WHERE level ="
    " %(level)s - 1"
)
WRONG = """
    WITH counted AS (
        SELECT run_id, name, (step - 1) / %(wide)s * %(wide)s + 1 AS first, sum(count) AS count,
               sum(mean * (count / %(wide)s::float8)) * (%(wide)s::float8 / sum(count)) AS mean,
                   min(low) AS low, max(high) AS high
        FROM ({source}) AS parts GROUP BY 1, 2, 3
    ), stored AS (SELECT * FROM runs_metricspan WHERE level = %(level)s)
    SELECT run_id, name, first, s.count, c.count
    FROM stored s FULL JOIN counted c USING (run_id, name, first) JOIN runs_run r ON r.id = run_id
    WHERE CASE WHEN s.count IS NULL THEN first + %(wide)s - 1 <= r.step ELSE
            s.count IS DISTINCT FROM c.count OR s.low IS DISTINCT FROM c.low OR s.high IS DISTINCT
                FROM c.high
            OR abs(s.mean - c.mean) > %(rounding)s * greatest(abs(c.low), abs(c.high)) END
    ORDER BY run_id, name, first LIMIT %(shown)s"""
