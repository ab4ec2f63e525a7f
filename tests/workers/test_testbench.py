"""The test bench in the scorer worker: replies and cases, scored by real graders."""

import pytest
from django.db.models.functions import Now

from apps.leases.work import MAX_ATTEMPTS
from apps.rewards.models import RegressionCase, RegressionCheck, Reward, Trial
from apps.rewards.scorers import find_scorer
from apps.rewards.testbench.asking import (
    Refused,
    TrialRequest,
    ask_changed,
    ask_check,
    keep_case,
    queue_trial,
)
from workers import scorer, scorer_dispatch, testbench

VERSION = find_scorer("math").version
HALF = {"prompt": [], "answer": {"value": "1/2"}, "domain": "", "meta": {}}


@pytest.fixture(autouse=True)
def fresh_worker():
    scorer.own_worker_row.cache_clear()


@pytest.fixture(scope="module", autouse=True)
def one_grader():
    """Keep one grader for the file, so that its children load their libraries once."""
    yield
    scorer_dispatch.grader().stop()
    scorer_dispatch.grader.cache_clear()


@pytest.fixture
def tried(project, alice):
    """Return a function that has replies scored by the scorer worker."""

    def score(*replies: str, name: str = "math", options=None, task=HALF) -> Trial:
        said = [{"text": reply} for reply in replies]
        trial = queue_trial(project, alice, TrialRequest(name, options or {}, task, said, {}))
        while scorer.serve():
            pass
        trial.refresh_from_db()
        return trial

    return score


def test_each_reply_gets_its_verdict_in_order(tried):
    trial = tried(*(rf"\boxed{{{said}}}" for said in ("0.5", "0.4", "2/4", "1", "0.50")))
    assert (trial.state, trial.attempts) == ("done", 0)
    assert [verdict["value"] for verdict in trial.verdicts] == [1.0, 0.0, 1.0, 0.0, 1.0]
    first = trial.verdicts[0]
    assert (first["version"], first["reason"]) == (VERSION, "the right answer")
    assert (first["details"]["answer"], first["details"]["expected"]) == ("0.5", "1/2")
    assert first["seconds"] >= 0 and not Reward.objects.exists()


def test_scorer_that_cannot_score_gives_null_with_the_reason(tried):
    trial = tried("0.5", task={**HALF, "answer": {}})
    assert trial.state == "done"
    assert (trial.verdicts[0]["value"], trial.verdicts[0]["reason"]) == (
        None,
        "the task has no answer",
    )


def test_group_scorer_gets_all_replies_of_a_trial(tried):
    trial = tried("one", "another", name="length")
    assert trial.state == "done" and len(trial.verdicts) == 2
    assert {verdict["value"] for verdict in trial.verdicts} == {None}  # lengths are unknown


def test_missing_reward_model_gives_null_with_the_reason(tried):
    trial = tried("yes", name="model:nowhere")
    assert trial.verdicts[0]["value"] is None and trial.verdicts[0]["version"] is None
    assert "no reward model run 'nowhere'" in trial.verdicts[0]["reason"]


def test_unexpected_error_fails_the_trial_with_the_reason(tried, monkeypatch):
    monkeypatch.setattr(testbench, "by_rule", lambda _: 1 / 0)
    trial = tried("0.5")
    assert (trial.state, trial.reason) == ("failed", "ZeroDivisionError: division by zero")


def test_trial_that_kills_its_workers_fails_with_the_reason(project, alice):
    trial = queue_trial(project, alice, TrialRequest("math", {}, HALF, [{"text": "1"}], {}))
    for _ in range(MAX_ATTEMPTS):
        assert Trial.objects.claim("dying", 60).pk == trial.pk
        Trial.objects.update(lease_until=Now())
    scorer.serve()
    trial.refresh_from_db()
    assert trial.state == "failed" and "the worker stopped during each" in trial.reason


def test_verdicts_of_a_worker_with_an_expired_lease_are_not_stored(project, alice):
    trial = queue_trial(project, alice, TrialRequest("math", {}, HALF, [{"text": "1"}], {}))
    late = Trial.objects.claim("late", 60)
    Trial.objects.update(lease_until=Now())
    assert Trial.objects.claim("next", 60).pk == trial.pk
    assert not late.add([{"value": 1.0}])
    trial.refresh_from_db()
    assert trial.verdicts == [] and trial.state == "running"


def test_a_check_scores_every_case_and_counts_those_that_differ(tried, project, alice, monkeypatch):
    monkeypatch.setattr(testbench, "CASES_AT_ONCE", 2)
    trial = tried("0.5", "0.4", "7")
    for place, expected in enumerate((1.0, 0.0, 1.0)):
        keep_case(trial, place, expected, "", alice)
    RegressionCase.objects.update(value=None, reason="old", holds=False, version=1)
    check = ask_check(project, alice)
    assert ask_check(project, alice) == check  # one at a time
    while scorer.serve():
        pass
    check.refresh_from_db()
    assert (check.state, check.cases, check.done, check.differ) == ("done", 3, 3, 1)
    cases = RegressionCase.objects.order_by("pk").values_list("value", "holds", "version")
    assert list(cases) == [(1.0, True, VERSION), (0.0, True, VERSION), (0.0, False, VERSION)]
    assert RegressionCheck.objects.claim("me", 60) is None


def test_a_check_without_cases_is_refused(project, alice):
    with pytest.raises(Refused, match="no cases"):
        ask_check(project, alice)


def test_worker_with_other_scorer_versions_starts_a_check(tried, project, alice, monkeypatch):
    keep_case(tried("0.5"), 0, 1.0, "", alice)
    assert ask_changed() == []  # checked with this version
    RegressionCase.objects.update(version=VERSION - 1)
    scorer.ask_after_upgrade.cache_clear()
    monkeypatch.setattr(scorer, "run_slice", lambda *_: None)
    scorer.score()
    (check,) = RegressionCheck.objects.open()
    assert (check.project, check.by, check.cases) == (project, None, 1)
    while scorer.serve():
        pass
    assert RegressionCase.objects.get().version == VERSION
    assert ask_changed() == []
