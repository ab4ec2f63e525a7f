"""Metrics in spans of 8, 64, 512 … steps, with mean, minimum and maximum.

With spans, a curve of a million points is read as a few hundred. A span is written from the stored
points, in the transaction that commits its last step. It is written again when one of its points
comes later. So it always agrees with its points (`manage.py reconcile` compares them).
"""

from collections.abc import Iterable, Iterator

from django.db import connection, models
from django.db.models import Q

from apps.runs.models.run import Run

FACTOR = 8
LEVELS = 8  # 8 ** 8 steps: 16 million


class MetricSpan(models.Model):
    """Summary of a metric over the steps `first` … `first` + 8 ** `level` - 1 of a run.

    All of these steps are committed.
    """

    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, related_name="spans", db_index=False
    )  # one_span_per_place
    name = models.CharField(max_length=60)
    level = models.PositiveSmallIntegerField()
    first = models.PositiveIntegerField(help_text="First step of the interval.")
    count = models.PositiveIntegerField(help_text="Number of steps with a value.")
    mean = models.FloatField()
    low = models.FloatField()
    high = models.FloatField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "name", "level", "first"], name="one_span_per_place"
            ),
            models.CheckConstraint(
                condition=Q(level__gte=1) & Q(count__gte=1) & Q(low__lte=models.F("high")),
                name="spans_are_spans",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name}@{self.first}+{FACTOR**self.level}"

    @classmethod
    def close(cls, run: Run, step: int, names: Iterable[str]) -> None:
        """Write the spans that the values of this step complete or belong to.

        The caller holds `hold_spans` of the run. A step that ends a span closes the span for every
        metric of the run. A step that lies before the end of a closed span changes the span for
        `names` alone.
        """
        reached = max(step, Run.objects.values_list("step", flat=True).get(pk=run.pk))
        for level, first, last in spans_around(step):
            if last > reached:
                return
            write_spans(run, level, first, metric_names(run) if last == step else list(names))

    @classmethod
    def fill(cls, run: Run) -> None:
        """Write all spans of a run whose points were not written by `Metric.record`."""
        names = metric_names(run)
        for level in range(1, LEVELS + 1):
            last = run.step // FACTOR**level * FACTOR**level
            if not last:
                return
            with connection.cursor() as cursor:
                cursor.execute(
                    _fold(level),
                    {"run": run.pk, "names": names, "level": level, "first": 1, "last": last},
                )


def spans_around(step: int) -> Iterator[tuple[int, int, int]]:
    """Yield (level, first, last) of the spans that hold a step, the narrowest first."""
    for level in range(1, LEVELS + 1):
        wide = FACTOR**level
        first = (step - 1) // wide * wide + 1
        yield level, first, first + wide - 1


def hold_spans(run: Run) -> None:
    """Lock the points of this run against other writers until the transaction ends.

    This way a span always covers all of its points.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtext('metric spans'), %s)", [run.pk % 2**31]
        )


def write_spans(run: Run, level: int, first: int, names: list[str]) -> None:
    with connection.cursor() as cursor:
        places = {
            "run": run.pk,
            "names": names,
            "level": level,
            "first": first,
            "last": first + FACTOR**level - 1,
        }
        cursor.execute(_fold(level), places)


def metric_names(run: Run) -> list[str]:
    """Return the names of the run's metrics, sorted.

    It takes one index seek for each name, however many steps there are.
    """
    with connection.cursor() as cursor:
        cursor.execute(NAMES, {"run": run.pk})
        return [name for (name,) in cursor.fetchall()]


def newest_values(run: Run, steps: int) -> dict[str, float]:
    """Return the newest value of each metric that has one in the run's last `steps` steps."""
    with connection.cursor() as cursor:
        cursor.execute(NEWEST, {"run": run.pk, "after": run.step - steps})
        return dict(cursor.fetchall())


def _fold(level: int) -> str:
    return FOLD.format(source=POINTS if level == 1 else SPANS, wide=FACTOR**level)


KNOWN = """
    WITH RECURSIVE known AS (
        (SELECT name FROM runs_metric WHERE run_id = %(run)s ORDER BY name LIMIT 1)
        UNION ALL
        SELECT (SELECT name FROM runs_metric
            WHERE run_id = %(run)s AND name > known.name ORDER BY name LIMIT 1)
        FROM known WHERE known.name IS NOT NULL
    )"""
NAMES = f"{KNOWN} SELECT name FROM known WHERE name IS NOT NULL"
NEWEST = f"""{KNOWN}
    SELECT known.name, newest.value FROM known, LATERAL (
        SELECT value FROM runs_metric
            WHERE run_id = %(run)s AND name = known.name AND step > %(after)s
            ORDER BY step DESC LIMIT 1
    ) AS newest"""
# Divided before they are summed: the sum of finite numbers need not be one.
FOLD = """
    INSERT INTO runs_metricspan (run_id, name, level, first, count, mean, low, high)
    SELECT %(run)s, name, %(level)s, (step - 1) / {wide} * {wide} + 1 AS place, sum(count),
           sum(mean * (count / {wide}.0::float8)) * ({wide}.0::float8 / sum(count)), min(low),
               max(high)
    FROM ({source}) AS parts GROUP BY name, place
    ON CONFLICT (run_id, name, level, first)
    DO UPDATE SET count = excluded.count, mean = excluded.mean, low = excluded.low,
        high = excluded.high"""
POINTS = """
    SELECT name, step, 1 AS count, value AS mean, value AS low, value AS high FROM runs_metric
    WHERE run_id = %(run)s AND name = ANY(%(names)s) AND step BETWEEN %(first)s AND %(last)s"""
SPANS = """
    SELECT name, first AS step, count, mean, low, high FROM runs_metricspan
    WHERE run_id = %(run)s AND name = ANY(%(names)s) AND level = %(level)s - 1
        AND first BETWEEN %(first)s AND %(last)s"""
