"""The views exist, contain the data of the tables, and every column is documented."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import NotSupportedError, connection, transaction

from apps.evaluation.asking import start_evaluation
from apps.rewards.models import Reward
from apps.runs.evaluation import Questions
from apps.runs.models import Metric
from rftweb.sql import making
from rftweb.sql.views import VIEWS
from tests.dashboard.evaluating import evaluated

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
    assert rows == [
        f"| `{column.name}` | {column.kind} | {column.words} |" for column in view.columns
    ]


def test_views_contain_the_data_of_the_tables(seeded):
    [(run,)] = asked(
        "SELECT run FROM reporting.runs WHERE algorithm = 'grpo' AND owner = 'alice' AND step = 3"
    )
    assert run == seeded.run.slug
    [(value, version)] = asked(
        "SELECT value, weight_version FROM reporting.metrics WHERE name = 'kl' AND step = 2"
    )
    assert value == Metric.objects.get(name="kl", step=2).value
    assert version == seeded.run.steps.get(number=2).version
    told = [view.name for view in VIEWS if not view.name.startswith("evaluation")]
    counts = {name: asked(f"SELECT count(*) FROM reporting.{name}")[0][0] for name in told}
    run = seeded.run
    assert counts == {
        "runs": 1,
        "steps": run.steps.count(),
        "metrics": run.metrics.count(),
        "rollouts": run.rollouts.count(),
        "rewards": Reward.objects.count(),
        "ratings": run.ratings.count(),
        "experiences": run.experiences.count(),
        "weight_versions": run.weight_versions.count(),
    }
    assert min(counts.values()) > 0


def test_evaluations_are_listed_under_the_run_of_their_version(run, finish):
    made = evaluated(run, 0, finish, 3)
    kept = made.result.metrics
    [(number, version, taskset, per_task, judged)] = asked(
        "SELECT evaluation_id, weight_version, evaluation.taskset, samples_per_task, judged FROM"
        " reporting.evaluations evaluation JOIN reporting.runs USING (run_id) WHERE run = 'run-0'"
    )
    assert (number, version, taskset, per_task, judged) == (made.pk, 0, "sort", 2, kept["judged"])
    rows = asked(
        "SELECT measure, k, value, low, high, tasks FROM reporting.evaluation_metrics"
        f" WHERE run_id = {run.pk}"
    )
    assert {(measure, str(k)): list(told) for measure, k, *told in rows} == {
        (measure, k): told for measure, of_k in kept["metrics"].items() for k, told in of_k.items()
    }


def test_runs_view_marks_evaluations(run):
    made, _ = start_evaluation(
        run.weight_versions.get(version=0), Questions(taskset="sort", samples=2)
    )
    assert asked("SELECT run, is_evaluation FROM reporting.runs ORDER BY run_id") == [
        ("run-0", False),
        (made.slug, True),
    ]


def test_incomplete_evaluation_has_no_metrics(run):
    start_evaluation(run.weight_versions.get(version=0), Questions(taskset="sort", samples=2))
    assert asked("SELECT state, judged, summed_up_at FROM reporting.evaluations") == [
        ("running", None, None)
    ]
    assert asked("SELECT * FROM reporting.evaluation_metrics") == []


def test_views_are_dropped_before_a_migration_and_recreated_after_it(db):
    widen = "ALTER TABLE runs_metric ALTER COLUMN name TYPE varchar(61)"
    with pytest.raises(NotSupportedError, match="used by a view"), transaction.atomic():
        done(widen)
    making.before_migrations(plan=[("a migration", False)])
    assert not making.is_made() and asked(
        "SELECT count(*) FROM pg_views WHERE schemaname = 'reporting'"
    ) == [(0,)]
    done(widen)
    making.after_migrations()
    assert making.is_made() and asked("SELECT count(*) FROM reporting.metrics") == [(0,)]


def test_migrate_without_migrations_leaves_the_views_unchanged(db):
    objects = "SELECT oid FROM pg_class WHERE relnamespace = 'reporting'::regnamespace ORDER BY oid"
    before = asked(objects)
    call_command("migrate", verbosity=0)
    assert asked(objects) == before != []


def test_obsolete_view_is_dropped(db):
    done(
        "CREATE VIEW reporting.of_yore AS SELECT 1 AS one", "COMMENT ON SCHEMA reporting IS 'older'"
    )
    call_command("migrate", verbosity=0)
    assert making.is_made() and ("of_yore",) not in asked(
        "SELECT viewname FROM pg_views WHERE schemaname = 'reporting'"
    )


def sql(query: str, **options: object) -> list[str]:
    out = StringIO()
    call_command("sql", query, stdout=out, **options)
    return out.getvalue().splitlines()


def test_sql_command_prints_csv_or_json(seeded):
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
def test_sql_command_cannot_write(seeded, query):
    count = Metric.objects.count()
    with pytest.raises(CommandError):
        sql(query)
    assert Metric.objects.count() == count > 0
