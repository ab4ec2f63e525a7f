"""Usage of runs is counted once even if reported twice, and converted to hours and money."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from apps.alerts.ledger import usage_totals_match_their_hours
from apps.evaluation.asking import start_evaluation
from apps.runs.costs import cost_metrics, load_costs, load_spending
from apps.runs.evaluation import Questions
from apps.runs.models import Prices, Usage, UsageTotal

HOUR = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_added_amounts_are_summed_in_one_row_per_worker(run):
    for worker in ("a", "b", "a"):
        Usage.add(run.pk, worker, {"explorer.gpu_s": 1_800.0, "tokens.sampled": 100})
    assert Usage.objects.filter(run=run).count() == 4
    cost = load_costs([run])[run.pk]
    assert (cost.gpu_hours, cost.tokens) == (1.5, 300)


def test_amount_put_twice_counts_once(run):
    for _ in range(2):
        Usage.put(run.pk, "a", {("people.s", HOUR): 3_600.0})
    assert load_costs([run])[run.pk].people_hours == 1.0


def test_rolled_back_usage_is_not_counted(run):
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        Usage.add(run.pk, "a", {"tokens.sampled": 100})
        raise ZeroDivisionError
    assert load_costs([run])[run.pk].tokens == 0


def test_zero_negative_and_nan_amounts_are_ignored(run):
    Usage.add(
        run.pk, "a", {"tokens.sampled": 0, "explorer.cpu_s": float("nan"), "explorer.gpu_s": -1.0}
    )
    assert not Usage.objects.exists()


def test_costs_use_the_projects_prices_and_are_zero_without(run):
    Usage.add(
        run.pk,
        "a",
        {
            "trainer.gpu_s": 7_200,
            "refiner.cpu_s": 3_600,
            "people.s": 1_800,
            "judge.tokens_in": 3_000,
            "judge.tokens_out": 1_000,
        },
    )
    assert (load_costs([run])[run.pk].money, load_costs([run])[run.pk].has_prices) == (0, False)
    Prices.objects.create(
        project=run.project,
        currency="€",
        gpu_hour=2,
        cpu_hour=0.5,
        judge_tokens=0.25,
        person_hour=40,
    )
    cost = load_costs([run])[run.pk]
    assert cost.parts == {"GPUs": 4.0, "processors": 0.5, "judges": 1.0, "people": 20.0}
    assert (cost.money, cost.currency) == (25.5, "€")


def test_costs_of_many_runs_take_two_queries(new_run):
    runs = [new_run() for _ in range(5)]
    for run in runs:
        Usage.add(run.pk, "a", {"tokens.sampled": run.pk})
    with CaptureQueriesContext(connection) as captured:
        costs = load_costs(runs)
    assert len(captured) == 2 and {run.pk: costs[run.pk].tokens for run in runs} == {
        run.pk: run.pk for run in runs
    }


def test_spending_is_loaded_only_for_runs_with_a_budget(run, new_run):
    limited = new_run(budget={"tokens": 10})
    Usage.add(limited.pk, "a", {"tokens.sampled": 7})
    spent = load_spending([run, limited])
    assert run.pk not in spent and spent[limited.pk]["tokens"] == 7


def test_metrics_of_a_step_contain_the_usage_so_far(run):
    Usage.add(run.pk, "a", {"tokens.sampled": 7, "explorer.cpu_s": 360})
    assert cost_metrics(run) == {"cost_tokens": 7, "cost_cpu_hours": 0.1}


def rows_read(run) -> int:
    """Return how many rows the database reads for the cost of the run."""
    before = rows_fetched()
    load_costs([run])
    return rows_fetched() - before


def rows_fetched() -> int:
    """Return the rows read from the usage tables by this transaction."""
    fetched = "sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))"
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {fetched} FROM pg_stat_xact_user_tables WHERE relname LIKE 'runs_usage%'"
        )
        return int(cursor.fetchone()[0])


def test_cost_of_an_old_run_is_read_from_as_few_rows_as_of_a_new_one(run):
    Usage.put(run.pk, "a", {("tokens.sampled", HOUR): 1.0})
    young = rows_read(run)
    for worker in ("a", "b", "c"):
        Usage.put(
            run.pk,
            worker,
            {("tokens.sampled", HOUR + n * timedelta(hours=1)): 1.0 for n in range(200)},
        )
    assert rows_read(run) == young == 1
    assert load_costs([run])[run.pk].tokens == 600


def test_put_replaces_the_earlier_amount_in_the_total(run):
    for seconds in (100.0, 3_600.0, 1_800.0):
        Usage.put(run.pk, "a", {("people.s", HOUR): seconds})
    assert load_costs([run])[run.pk].people_hours == 0.5


def test_evaluations_count_towards_the_cost_of_their_run(run):
    evaluation, _ = start_evaluation(run.weight_versions.get(), Questions(taskset="sort"))
    Usage.add_all(
        {(run.pk, "a"): {"trainer.gpu_s": 3_600}, (evaluation.pk, "a"): {"explorer.gpu_s": 1_800}}
    )
    costs = load_costs([run, evaluation])
    assert (costs[run.pk].gpu_hours, costs[run.pk].of_evaluations.gpu_hours) == (1.5, 0.5)
    assert (costs[evaluation.pk].gpu_hours, costs[evaluation.pk].of_evaluations.gpu_hours) == (
        0.5,
        0,
    )
    assert list(usage_totals_match_their_hours()) == []


def test_total_that_differs_from_its_hours_is_reported(run):
    Usage.add(run.pk, "a", {"tokens.sampled": 7})
    UsageTotal.objects.update(own=8)
    assert len(list(usage_totals_match_their_hours())) == 1
