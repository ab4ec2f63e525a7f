"""Limits of an answer: the task's own apply within the run's; an answer over its time limit keeps
its text and is scored as usual.
"""

from types import SimpleNamespace

import pytest

from apps.rollouts.models import Group, Rollout
from apps.rollouts.partial import PartialRollout
from workers.explorer import session as sessions
from workers.explorer.chat_tokenizer import ChatTokenizer
from workers.explorer.rollout import InFlightRollout

pytestmark = pytest.mark.django_db(transaction=True)
ALL = {"engine": "transformers", "group_size": 8, "max_staleness": 0}


def settled(stage) -> list[Rollout]:
    def look() -> bool:
        stage.explorer.serve()
        return Group.objects.exists() and not Group.objects.filter(state="sampling").exists()

    stage.eventually(look, 300)
    return list(Rollout.objects.select_related("group__task").order_by("pk"))


@pytest.fixture(autouse=True)
def endless(monkeypatch) -> None:
    """Let no answer end by itself: the end token is one that the policy cannot write."""
    monkeypatch.setattr(ChatTokenizer, "stop_token_ids", (10**6,))


@pytest.fixture
def watch(monkeypatch) -> SimpleNamespace:
    """Replace the session's clock with one that only the test advances."""
    watch = SimpleNamespace(now=1_000.0)
    monkeypatch.setattr(sessions, "time", SimpleNamespace(monotonic=lambda: watch.now))
    return watch


def test_tasks_token_limit_applies_within_the_runs_limit(new_run, tiny_policy, taskset, stage):
    for index, most in enumerate((5, 30, 9_999, None)):
        taskset.tasks.filter(index=index).update(
            meta={} if most is None else {"limits": {"max_tokens": most}}
        )
    new_run(sampling={"max_tokens": 20}, groups_per_step=4, **ALL)
    rollouts = settled(stage)
    most = {0: 5, 1: 20, 2: 20, 3: 20}
    assert {one.group.task.index for one in rollouts} == set(most)
    assert {
        (one.stop_reason, one.completion_tokens - most[one.group.task.index]) for one in rollouts
    } == {("length", 0)}


def test_answer_over_its_time_limit_ends_with_time_and_keeps_its_text(
    new_run, tiny_policy, stage, watch
):
    new_run(sampling={"max_tokens": 110, "time_s": 60}, **ALL)
    in_flight = stage.streaming(tokens=4)
    before = list(in_flight.token_ids)
    watch.now += 59
    stage.explorer.serve()
    assert stage.in_flight(in_flight.rollout_id) is in_flight and in_flight.request_id
    before = list(in_flight.token_ids)
    watch.now += 1
    stage.explorer.serve()
    rollout = Rollout.objects.get(pk=in_flight.rollout_id)
    assert (rollout.state, rollout.stop_reason) == ("finished", "time")
    said = list(rollout.tokens.completion_ids)
    assert said[: len(before)] == before and len(said) <= len(before) + 1 and rollout.text
    assert (
        set(rollout.tokens.action_mask) == {1}
        and stage.watched(rollout).ended[rollout.pk] == "time"
    )


def test_tasks_time_limit_ends_only_its_own_answers(new_run, tiny_policy, taskset, stage, watch):
    taskset.tasks.filter(index__in=(0, 1)).update(meta={"limits": {"time_s": 5}})
    new_run(sampling={"max_tokens": 110}, groups_per_step=4, **ALL)
    stage.streaming()
    stage.eventually(lambda: _all_have_begun(stage), 300)
    assert len(stage.session.rollouts) == 32
    watch.now += 5
    rollouts = settled(stage)
    assert {(one.group.task.index < 2, one.stop_reason) for one in rollouts} == {
        (True, "time"),
        (False, "length"),
    }


def _all_have_begun(stage) -> bool:
    stage.explorer.serve()
    return all(
        in_flight.clock.since is not None
        for in_flight in stage.session.rollouts.values()
        if in_flight.request_id
    )


def test_clock_stops_while_a_person_holds_the_rollout(new_run, tiny_policy, stage, alice, watch):
    new_run(sampling={"max_tokens": 110, "time_s": 60}, **ALL)
    (in_flight,) = stage.caught(1, alice)
    spent = in_flight.clock.at(watch.now)
    watch.now += 100
    assert (
        stage.in_flight(in_flight.rollout_id) is in_flight
        and in_flight.clock.at(watch.now) == spent
    )
    stage.ask(alice, in_flight, "free")
    stage.explorer.serve()
    assert (
        stage.in_flight(in_flight.rollout_id) is in_flight
        and in_flight.held_until is None
        and not in_flight.clock.is_over(watch.now)
    )


def test_slices_of_an_answer_share_its_time_limit_across_explorers(
    new_run, tiny_policy, stage, watch
):
    new_run(sampling={"max_tokens": 110, "time_s": 10, "slice_tokens": 8}, **ALL)
    stage.streaming()
    stage.eventually(lambda: _all_have_begun(stage), 300)
    watch.now += 6  # in the middle of the first slice

    def left() -> dict[int, PartialRollout]:
        stage.explorer.serve()
        kept = PartialRollout.objects.filter(slices=1).in_bulk()
        return {pk: one for pk, one in kept.items() if one.notes["spent_s"] == 6}

    stored = stage.eventually(left, 300)
    again: list[InFlightRollout] = []

    def taken_again() -> bool:
        stage.explorer.serve()
        again[:] = [
            in_flight
            for pk in stored
            if (in_flight := stage.in_flight(pk)) and in_flight.clock.since is not None
        ]
        return bool(again)

    stage.eventually(taken_again, 300)
    assert {in_flight.clock.at(watch.now) for in_flight in again} == {6}
    watch.now += 4
    rollouts = {one.pk: one for one in settled(stage)}
    assert {rollouts[in_flight.rollout_id].stop_reason for in_flight in again} == {"time"}


def test_run_with_invalid_task_limits_is_paused_with_the_field_name(
    new_run, tiny_policy, taskset, stage
):
    run = new_run(**ALL)
    taskset.tasks.update(meta={"limits": "none"})
    stage.explorer.serve()
    run.refresh_from_db()
    assert (run.state, run.state_reason) == (
        "paused",
        "meta.limits: must be an object with max_tokens and time_s",
    )
