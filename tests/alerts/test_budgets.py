"""A run that has used its budget pauses with the reason, and continues once it is raised."""

import pytest

from apps.alerts.evaluating import look_at_runs
from apps.alerts.ledger import alerts_have_a_history, sampled_tokens_are_counted
from apps.alerts.models import Alert, AlertEntry
from apps.evaluation.asking import start_evaluation
from apps.evaluation.scheduled import evaluate_due_versions
from apps.runs.config import ConfigError
from apps.runs.evaluation import Questions
from apps.runs.models import Run, Usage


def test_used_up_budget_pauses_the_run_after_each_resume_until_it_is_raised(healthy):
    healthy.change_config(None, budget={"tokens": 1_000})
    Usage.add(healthy.pk, "a", {"tokens.sampled": 850})
    assert look_at_runs() == {"opened": 1}
    Usage.add(healthy.pk, "a", {"tokens.sampled": 150})
    for _ in range(2):
        assert look_at_runs() == {"paused": 1}
        healthy.refresh_from_db()
        assert (
            healthy.state == Run.State.PAUSED
            and "1,000 of 1,000 sampled tokens" in healthy.state_reason
        )
        healthy.resume()
    healthy.change_config(None, budget={"tokens": 5_000})
    assert look_at_runs() == {"closed": 1}
    healthy.refresh_from_db()
    assert healthy.is_live


def test_evaluations_count_against_the_budget_and_pause_and_resume_with_the_run(
    healthy,
):
    healthy.change_config(None, budget={"tokens": 1_000})
    evaluation, _ = start_evaluation(healthy.weight_versions.get(), Questions(taskset="sort"))
    Usage.add(evaluation.pk, "a", {"tokens.sampled": 1_000})
    assert look_at_runs() == {"opened": 1, "paused": 1, "evaluations_held": 1}
    evaluation.refresh_from_db()
    assert evaluation.state == Run.State.PAUSED and "used up (tokens)" in evaluation.state_reason
    healthy.refresh_from_db()
    healthy.change_config(None, budget={"tokens": 5_000})
    assert "evaluations_resumed" not in look_at_runs()
    healthy.resume()
    assert look_at_runs()["evaluations_resumed"] == 1
    evaluation.refresh_from_db()
    assert evaluation.is_live


def test_evaluation_paused_by_a_user_stays_paused_within_the_budget(healthy):
    healthy.change_config(None, budget={"tokens": 1_000})
    evaluation, _ = start_evaluation(healthy.weight_versions.get(), Questions(taskset="sort"))
    evaluation.pause()
    look_at_runs()
    evaluation.refresh_from_db()
    assert evaluation.state == Run.State.PAUSED


def test_no_evaluation_starts_while_the_runs_budget_is_used_up(healthy):
    healthy.change_config(None, budget={"tokens": 1_000}, evaluations=[{"taskset": "sort"}])
    Usage.add(healthy.pk, "a", {"tokens.sampled": 1_000})
    look_at_runs()
    healthy.refresh_from_db()
    assert evaluate_due_versions(healthy) == 0
    with pytest.raises(ConfigError, match="used up"):
        start_evaluation(healthy.weight_versions.get(), Questions(taskset="sort"))
    healthy.change_config(None, budget=None)
    assert evaluate_due_versions(healthy) == 1


def test_reconcile_reports_a_wrong_count_of_sampled_tokens(run, finish):
    finish(run, ["12345", "123"])
    assert list(sampled_tokens_are_counted()) == []
    assert Usage.objects.get(run=run, kind="tokens.sampled").amount == 8
    Usage.objects.update(amount=7)
    assert list(sampled_tokens_are_counted()) == [
        f"{run.slug}: 7 sampled tokens are counted, but its rollouts have 8"
    ]


def test_reconcile_finds_an_alert_without_history_entries(stalled):
    look_at_runs()
    assert list(alerts_have_a_history()) == []
    AlertEntry.objects.filter(alert=Alert.objects.get()).delete()
    assert len(list(alerts_have_a_history())) == 1
