"""The views are there, say what the tables say, and are told of column by column."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import NotSupportedError, connection, transaction

from apps.rewards.models import Reward
from apps.runs.models import Metric
from rftweb.sql import making
from rftweb.sql.views import VIEWS

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "sql.md").read_text()


def asked(query: str) -> list[tuple]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchall()


def done(*words: str) -> None:
    with connection.cursor() as cursor:
        for one in words:
            cursor.execute(one)


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_every_column_is_documented(view):
    _, _, part = DOCUMENT.partition(f"\n## {view.name}\n")
    part = part.partition("\n## ")[0]
    assert view.words in part
    rows = [line for line in part.splitlines() if line.startswith("| `")]
    assert rows == [f"| `{column.name}` | {column.kind} | {column.words} |" for column in view.columns]


def test_they_say_what_the_tables_say(seeded):
    [(run,)] = asked("SELECT run FROM desk.runs WHERE algorithm = 'grpo' AND owner = 'alice' AND step = 3")
    assert run == seeded.run.slug
    [(value, version)] = asked("SELECT value, weight_version FROM desk.metrics WHERE name = 'kl' AND step = 2")
    assert value == Metric.objects.get(name="kl", step=2).value
    assert version == seeded.run.steps.get(number=2).version
    counts = {view.name: asked(f"SELECT count(*) FROM desk.{view.name}")[0][0] for view in VIEWS}
    run = seeded.run
    assert counts == {
        "runs": 1, "steps": run.steps.count(), "metrics": run.metrics.count(), "rollouts": run.rollouts.count(),
        "rewards": Reward.objects.count(), "ratings": run.ratings.count(), "experiences": run.experiences.count(),
        "weight_versions": run.weight_versions.count(),
    }  # fmt: skip
    assert min(counts.values()) > 0


def test_a_migration_finds_no_view_in_its_way_and_they_come_back(db):
    widen = "ALTER TABLE runs_metric ALTER COLUMN name TYPE varchar(61)"
    with pytest.raises(NotSupportedError, match="used by a view"), transaction.atomic():
        done(widen)
    making.before_migrations(plan=[("a migration", False)])
    assert not making.is_made() and asked("SELECT count(*) FROM pg_views WHERE schemaname = 'desk'") == [(0,)]
    done(widen)
    making.after_migrations()
    assert making.is_made() and asked("SELECT count(*) FROM desk.metrics") == [(0,)]


def test_where_nothing_is_migrated_nothing_is_touched(db):
    before = asked("SELECT oid FROM pg_class WHERE relnamespace = 'desk'::regnamespace ORDER BY oid")
    call_command("migrate", verbosity=0)
    assert asked("SELECT oid FROM pg_class WHERE relnamespace = 'desk'::regnamespace ORDER BY oid") == before != []


def test_a_view_that_is_no_more_goes(db):
    done("CREATE VIEW desk.of_yore AS SELECT 1 AS one", "COMMENT ON SCHEMA desk IS 'older'")
    call_command("migrate", verbosity=0)
    assert making.is_made() and ("of_yore",) not in asked("SELECT viewname FROM pg_views WHERE schemaname = 'desk'")


def sql(query: str, **options: object) -> list[str]:
    out = StringIO()
    call_command("sql", query, stdout=out, **options)
    return out.getvalue().splitlines()


def test_the_command_answers_as_csv_and_as_json(seeded):
    query = "SELECT step, name FROM metrics WHERE name = 'kl' ORDER BY step"
    assert sql(query) == ["step,name", "1,kl", "2,kl", "3,kl"]
    assert sql(query, json=True)[0] == '{"step": 1, "name": "kl"}'


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM public.runs_metric",
        "WITH gone AS (DELETE FROM public.runs_metric RETURNING 1) SELECT * FROM gone",
        "SELECT 1; DELETE FROM public.runs_metric",
        "SELECT setval('public.runs_metric_id_seq', 1)",
    ],
)
def test_the_command_writes_nothing(seeded, query):
    count = Metric.objects.count()
    with pytest.raises(CommandError):
        sql(query)
    assert Metric.objects.count() == count > 0
