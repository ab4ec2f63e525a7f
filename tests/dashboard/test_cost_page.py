"""Page of costs: amounts, money if there are prices, limits, and no rewards for blind raters."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.models import AuditEntry
from apps.evaluation.asking import start_evaluation
from apps.runs.evaluation import Questions
from apps.runs.models import Metric, Prices, Run, Usage


def page(client, run: Run, query: str = "") -> str:
    answer = client.get(reverse("run-cost", args=["lab", run.slug]) + query)
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.fixture
def used(run, cast) -> Run:
    """Create ten updates that each raise the reward and use half a GPU hour."""
    for step in range(1, 11):
        Usage.add(run.pk, "a", {"trainer.gpu_s": 1_800})
        Metric.record(run, step, {"reward_mean": step / 20 + 0.0137, "cost_gpu_hours": step / 2})
    Usage.add(run.pk, "a", {"tokens.sampled": 12_345, "people.s": 600})
    Run.objects.filter(pk=run.pk).update(step=10)
    run.refresh_from_db()
    return run


def test_amounts_are_shown_without_money_until_prices_are_set(client, cast, used):
    client.force_login(cast.alice)
    text = page(client, used)
    assert "12,345" in text and "no prices" in text
    address = reverse("run-cost-prices", args=["lab", used.slug])
    client.post(
        address,
        {"currency": "€", "gpu_hour": "2", "cpu_hour": "", "judge_tokens": "", "person_hour": "30"},
    )
    assert Prices.objects.get(project=used.project).gpu_hour == 2 and "15.00 €" in page(
        client, used
    )
    assert AuditEntry.objects.filter(action="prices changed", by=cast.alice).exists()


@pytest.mark.parametrize("price", ["-1", "nan", "inf", "much", "1e400"])
def test_invalid_price_is_refused(client, cast, used, price):
    client.force_login(cast.alice)
    answer = client.post(reverse("run-cost-prices", args=["lab", used.slug]), {"gpu_hour": price})
    assert answer.status_code == 422 and not Prices.objects.exists()


def test_limits_are_saved_in_the_configuration_and_removed_when_emptied(client, cast, used):
    client.force_login(cast.alice)
    address = reverse("run-cost-budget", args=["lab", used.slug])
    client.post(address, {"gpu_hours": "20", "money": ""})
    used.refresh_from_db()
    assert used.settings.budget.gpu_hours == 20 and "25 %" in page(client, used)
    client.post(address, {"gpu_hours": ""})
    used.refresh_from_db()
    assert used.settings.budget is None


@pytest.mark.parametrize("limit", ["-1", "0", "nan", "much"])
def test_invalid_limit_is_refused_and_kept_in_its_field(client, cast, used, limit):
    client.force_login(cast.alice)
    answer = client.post(reverse("run-cost-budget", args=["lab", used.slug]), {"gpu_hours": limit})
    assert answer.status_code == 422 and f'value="{limit}"' in answer.content.decode()
    used.refresh_from_db()
    assert used.settings.budget is None


def test_run_can_be_resumed_with_a_raised_limit(client, cast, used):
    used.pause(reason="Budget: 5 of 5 GPU hours are used")
    client.force_login(cast.alice)
    assert "Save and resume" in page(client, used)
    client.post(
        reverse("run-cost-budget", args=["lab", used.slug]), {"gpu_hours": "50", "resume": "1"}
    )
    used.refresh_from_db()
    assert used.is_live and used.settings.budget.gpu_hours == 50


def test_cost_per_step_and_per_reward_is_shown(client, cast, used):
    client.force_login(cast.alice)
    text = page(client, used)
    assert ">step <" in text and "0.01 of reward" in text and "Reward against cost" in text
    assert "<polyline" in page(client, used, "?against=gpu_hours") and "<polyline" in page(
        client, used, "?against=nonsense"
    )


def test_blind_rater_sees_amounts_but_no_rewards(client, cast, used):
    client.force_login(cast.bob)
    text = page(client, used)
    assert "12,345" in text
    assert [
        words
        for words in ("0.01 of reward", "Reward against cost", "0.51", "accepted experience")
        if words in text
    ] == []


def test_run_without_usage_is_reported(client, cast, run):
    client.force_login(cast.alice)
    assert "Nothing used yet" in page(client, run)


def test_number_of_queries_does_not_grow_with_usage_and_runs(client, cast, used, new_run):
    client.force_login(cast.alice)
    page(client, used)
    with CaptureQueriesContext(connection) as few:
        page(client, used)
    for n in range(5):
        Usage.add(new_run().pk, f"w{n}", {"tokens.sampled": 1})
        Usage.add(used.pk, f"w{n}", {"tokens.sampled": 1})
    with CaptureQueriesContext(connection) as many:
        page(client, used)
    assert len(many) == len(few) <= 28


def test_cost_per_accepted_experience_uses_all_experiences(client, cast, used):
    Run.objects.filter(pk=used.pk).update(experiences_trained=320_000)
    Usage.add(used.pk, "a", {"judge.tokens_in": 6_400_000})
    client.force_login(cast.alice)
    text = page(client, used)
    assert "320,000" in text and ">20</td>" in text  # judge tokens for each


def test_usage_of_evaluations_has_its_own_line_and_they_are_not_listed(client, cast, used):
    evaluation, _ = start_evaluation(used.weight_versions.get(), Questions(taskset="sort"))
    client.force_login(cast.alice)
    assert "evaluations (included above)" not in page(client, used)
    Usage.add(evaluation.pk, "a", {"tokens.sampled": 655})
    text = page(client, used)
    assert (
        "evaluations (included above)" in text and "13,000" in text and evaluation.slug not in text
    )
