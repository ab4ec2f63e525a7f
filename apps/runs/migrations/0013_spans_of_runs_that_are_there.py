"""The spans of what was measured before there were any: as Metric.record would have written them."""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

FACTOR, LEVELS = 8, 8
POINTS = "SELECT run_id, name, step, 1 AS count, value AS mean, value AS low, value AS high FROM runs_metric"
SPANS = "SELECT run_id, name, first AS step, count, mean, low, high FROM runs_metricspan WHERE level = {level} - 1"
FOLD = """
    INSERT INTO runs_metricspan (run_id, name, level, first, count, mean, low, high)
    SELECT run_id, name, {level}, (p.step - 1) / {wide} * {wide} + 1, sum(count),
           sum(mean * (count / {wide}.0::float8)) * ({wide}.0::float8 / sum(count)), min(low), max(high)
    FROM ({source}) AS p JOIN runs_run r ON r.id = run_id
    WHERE p.step <= r.step / {wide} * {wide} GROUP BY 1, 2, 4"""


def fill(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    for level in range(1, LEVELS + 1):
        source = (POINTS if level == 1 else SPANS).format(level=level)
        editor.execute(FOLD.format(source=source, level=level, wide=FACTOR**level))


class Migration(migrations.Migration):
    dependencies = [("runs", "0012_metric_spans")]
    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
