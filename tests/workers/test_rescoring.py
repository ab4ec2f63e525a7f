"""Rescoring: the scorer worker computes a new set of rewards on real rows with a real grader."""

import pytest
from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from apps.rewards.models import Rescored, RescoredGroup, RescoredReward, Rescoring, Reward
from apps.rewards.rescoring.asking import NothingToRescore, start_rescoring
from apps.rewards.rescoring.choosing import Chosen
from apps.rewards.rescoring.judging import MAX_ATTEMPTS, record_rescoring, take_rescoring_groups
from apps.rewards.rescoring.ledger import rescorings_are_complete
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import AnsweredQuestion
from apps.rollouts.models import Group, Rollout
from apps.runs.models import NotPossible, Run
from workers import refiner, rescoring, scorer, scorer_dispatch, stop_request, time_slices

TWO = [
    {"scorer": "length", "weight": 2.0, "options": {"correctness_scorer": "sort"}},
    {"scorer": "sort"},
]
FLAT = [{"scorer": "repetition"}]  # gives all replies here the same reward


@pytest.fixture(autouse=True)
def fresh_workers():
    for worker in (scorer, refiner):
        worker.own_worker_row.cache_clear()


@pytest.fixture(scope="module", autouse=True)
def one_grader():
    """Keep one grader for the file, so that its children load their libraries once."""
    yield
    scorer_dispatch.grader().stop()
    scorer_dispatch.grader.cache_clear()


@pytest.fixture
def judged(new_run, finish):
    """Return a function that creates a run with scored groups; each first rollout is right."""

    def make(groups: int = 3, texts=("12345", "54321"), **changes: object) -> Run:
        run = new_run(max_staleness=3, **changes)
        finish(run, list(texts), groups=groups)
        while scorer.serve() or refiner.serve():
            pass
        run.refresh_from_db()
        return run

    return make


def to_the_end(again: Rescoring) -> Rescoring:
    while scorer.serve() or scorer.serve():  # the first call after other work skips the rescoring
        pass
    again.refresh_from_db()
    return again


def violations() -> list[str]:
    return list(rescorings_are_complete())


@pytest.mark.django_db(transaction=True)
def test_reconcile_reports_an_incomplete_rescoring(judged):
    run = judged()
    made = start_rescoring(run, FLAT, Chosen())
    while scorer.serve():
        assert violations() == []
    made.refresh_from_db()
    assert made.state == Rescoring.State.DONE and violations() == []
    Rescored.objects.filter(rescoring=made).first().delete()
    assert "has no recorded result" in violations()[0]
    RescoredGroup.objects.filter(rescoring=made).update(done_at=None)
    assert "0 are scored" in violations()[0]


def test_stored_rollouts_get_new_rewards_and_keep_the_old_ones(judged):
    run = judged()
    before = list(Reward.objects.order_by("pk").values())
    again = to_the_end(start_rescoring(run, TWO, Chosen()))
    assert (again.state, again.done, again.groups, again.rollouts) == (
        Rescoring.State.DONE,
        3,
        3,
        6,
    )
    assert list(Reward.objects.order_by("pk").values()) == before
    said = RescoredReward.objects.filter(rescoring=again)
    assert {(row.scorer, row.options.get("correctness_scorer"), row.version) for row in said} == {
        ("length", "sort", 1),
        ("sort", None, 1),
    }
    assert said.count() == 12 and set(
        said.filter(scorer="sort").values_list("value", flat=True)
    ) == {0.0, 1.0}


def test_group_scorer_uses_only_rewards_of_the_same_rescoring(judged):
    run = judged(1, ("12345", "54321"))
    Reward.objects.update(value=0.5)
    again = to_the_end(start_rescoring(run, TWO, Chosen()))
    lengths = RescoredReward.objects.get(rescoring=again, scorer="length", rollout__text="12345")
    assert (
        lengths.value == 0.0
    )  # both have one length; with the old 0.5, none would be right; neither is a failure
    assert (
        lengths.reason and not RescoredReward.objects.filter(rescoring=again, value=None).exists()
    )


def test_comparison_records_the_change_of_each_rollout(judged):
    run = judged(1, ("12345", "54321"))
    again = to_the_end(start_rescoring(run, [{"scorer": "sort", "weight": 0.5}], Chosen()))
    right, wrong = Rescored.objects.filter(rescoring=again).order_by("-before")
    assert (right.before, right.after, right.fate, right.size) == (1.0, 0.5, "lower", 0.5)
    assert (wrong.before, wrong.after, wrong.fate, wrong.size) == (0.0, 0.0, "same", 0.0)
    assert (right.counted_before, right.counted_after) == (1.0, 0.5)
    item = RescoredGroup.objects.get(rescoring=again)
    assert (item.other_best, item.signal_before, item.signal_after) == (False, True, True)


def test_peoples_ratings_are_weighted_as_in_the_run(judged, bob):
    run = judged(1, people={"weight": 0.75})
    rollout = Rollout.objects.get(text="12345")
    Reward.record(rollout, Reward.Source.HUMAN, "stars", 0.0, by=bob)
    again = to_the_end(start_rescoring(run, [{"scorer": "sort", "weight": 0.2}], Chosen()))
    row = Rescored.objects.get(rescoring=again, rollout=rollout)
    assert (row.before, row.after, row.counted_before, row.counted_after) == (
        1.0,
        0.2,
        0.25,
        pytest.approx(0.05),
    )


def test_lost_signal_and_changed_best_reply_are_recorded(judged):
    run = judged(1)
    again = start_rescoring(run, FLAT, Chosen())
    taken = take_rescoring_groups("me", 60, 8)
    values = {"12345": 0.0, "54321": 1.0}
    texts = dict(Rollout.objects.values_list("pk", "text"))
    other = [
        AnsweredQuestion(q, [Verdict(values[texts[q.rollout_ids[0]]], "turned round")])
        for q in taken.questions({})
    ]
    assert record_rescoring(taken, other) == 1
    item = RescoredGroup.objects.get(rescoring=again)
    assert (item.other_best, item.signal_before, item.signal_after) == (True, True, True)
    flat = to_the_end(start_rescoring(run, FLAT, Chosen()))
    item = RescoredGroup.objects.get(rescoring=flat)
    assert (item.other_best, item.signal_before, item.signal_after) == (False, True, False)


def test_failed_scorer_gives_null_with_the_reason(judged):
    run = judged(1)
    again = start_rescoring(run, FLAT, Chosen())
    taken = take_rescoring_groups("me", 60, 8)
    record_rescoring(
        taken,
        [
            AnsweredQuestion(question, [Verdict(None, "no word of that")])
            for question in taken.questions({})
        ],
    )
    assert {(row.value, row.reason) for row in RescoredReward.objects.all()} == {
        (None, "no word of that")
    }
    assert set(Rescored.objects.values_list("fate", "after")) == {("lost", None)}
    again.refresh_from_db()
    assert again.state == Rescoring.State.DONE


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_database_refuses_rewards_that_are_not_finite_numbers(judged, value):
    run = judged(1)
    again = start_rescoring(run, FLAT, Chosen())
    row = RescoredReward(
        rescoring=again, rollout=run.rollouts.first(), scorer="repetition", value=value
    )
    with pytest.raises(IntegrityError), transaction.atomic():
        row.save()


def test_rollouts_of_live_runs_are_scored_before_a_rescoring(judged, new_run, finish):
    again = start_rescoring(judged(), FLAT, Chosen())
    finish(new_run(), groups=1)
    assert scorer.serve()
    again.refresh_from_db()
    assert again.done == 0 and not Group.objects.filter(state=Group.State.SCORING).exists()
    assert to_the_end(again).state == Rescoring.State.DONE


def test_rescoring_is_completed_when_no_run_is_live(judged, settings, monkeypatch):
    run = judged()
    run.stop()
    again = start_rescoring(run, FLAT, Chosen())
    settings.SLICE_SECONDS = 300
    monkeypatch.setattr(stop_request, "_flag", bytearray(1))

    def has_more() -> bool:
        is_open = Rescoring.objects.open().exists()
        if not is_open:
            stop_request.request_stop()
        return is_open

    time_slices.run_slice("score", scorer.serve, has_more)
    again.refresh_from_db()
    assert again.state == Rescoring.State.DONE


def test_groups_of_a_killed_worker_are_rescored_once_by_the_next(judged, monkeypatch):
    monkeypatch.setattr(rescoring, "GROUPS_AT_ONCE", 2)
    again = start_rescoring(judged(5), FLAT, Chosen())
    assert scorer.serve()
    dead = take_rescoring_groups("dead@worker", 60, 2)
    RescoredGroup.objects.filter(lease_owner="dead@worker").update(lease_until="2020-01-01T00:00Z")
    assert to_the_end(again).state == Rescoring.State.DONE
    rows = RescoredReward.objects.filter(rescoring=again)
    assert rows.count() == rows.values("rollout").distinct().count() == 10
    assert Rescored.objects.filter(rescoring=again).count() == 10
    late = [
        AnsweredQuestion(question, [Verdict(0.9, "too late")]) for question in dead.questions({})
    ]
    assert record_rescoring(dead, late) == 0 and not rows.filter(value=0.9).exists()


def test_two_workers_take_different_groups(judged):
    start_rescoring(judged(4), FLAT, Chosen())
    first = take_rescoring_groups("one", 60, 2)
    second = take_rescoring_groups("two", 60, 8)
    assert {g.pk for g in first.groups}.isdisjoint(g.pk for g in second.groups)
    assert len(second.groups) == 2 and take_rescoring_groups("three", 60, 8) is None


def test_group_that_kills_its_workers_fails_the_rescoring_with_the_reason(judged):
    again = start_rescoring(judged(1), FLAT, Chosen())
    for _ in range(MAX_ATTEMPTS):
        assert take_rescoring_groups("dying", 60, 1)
        RescoredGroup.objects.update(lease_until=Now())
    assert take_rescoring_groups("the last", 60, 1) is None
    again.refresh_from_db()
    assert again.state == Rescoring.State.FAILED and "could not be scored" in again.reason


def test_unexpected_error_fails_the_rescoring_and_the_worker_continues(judged, monkeypatch):
    again = start_rescoring(judged(1), FLAT, Chosen())
    monkeypatch.setattr(rescoring, "answer_questions", lambda *_: 1 / 0)
    assert scorer.serve()
    again.refresh_from_db()
    assert (again.state, again.reason) == (
        Rescoring.State.FAILED,
        "ZeroDivisionError: division by zero",
    )


def test_stopped_rescoring_keeps_its_results_and_accepts_no_more(judged, alice):
    again = start_rescoring(judged(), FLAT, Chosen())
    taken = take_rescoring_groups("me", 60, 1)
    again.stop(by=alice)
    assert (
        record_rescoring(
            taken,
            [
                AnsweredQuestion(question, [Verdict(1.0, "late")])
                for question in taken.questions({})
            ],
        )
        == 0
    )
    assert take_rescoring_groups("me", 60, 8) is None
    with pytest.raises(NotPossible):
        again.stop()
    assert (again.state, again.reason) == (Rescoring.State.STOPPED, "stopped by alice")


def test_run_without_rollouts_cannot_be_rescored(new_run):
    with pytest.raises(NothingToRescore, match="no scored rollouts of run-0 match"):
        start_rescoring(new_run(), FLAT, Chosen())
