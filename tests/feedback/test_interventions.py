"""Requests to stop, edit or type in a rollout: who may, what is rejected, and races with the
rollout's end.
"""

import threading
import uuid

import pytest
from django.db import connection, transaction

from apps.accounts.models import AuditEntry, Membership
from apps.feedback.interventions import (
    CannotAct,
    Correction,
    keep_corrections,
    list_pending_interventions,
    mark_done,
    refuse_left,
    request_intervention,
    runs_steered_by,
    typed_spans,
)
from apps.feedback.models import Demonstration, Intervention, Preference
from apps.rollouts.models import Group, Outcome, Rollout
from apps.rollouts.turns import POLICY, USER, Turn, TypedSpan
from tests.conftest import tokens_of


@pytest.fixture
def rollout(run) -> Rollout:
    """Open a rollout that is being written."""
    (group,) = Group.open(run, "explorer", 60, 1, 0)
    return Rollout.objects.filter(group=group).first()


def code(*words: object, **fields: object) -> str:
    with pytest.raises(CannotAct) as refusal:
        request_intervention(*words, **fields)
    return refusal.value.code


def typists(rollout) -> list[int]:
    """Return the people whose own text is in the rollout."""
    return list(rollout.interventions.filter(Intervention.TYPED).values_list("by", flat=True))


def test_owner_requests_an_intervention_that_waits_for_the_explorer(rollout, alice):
    act = request_intervention(alice, rollout.pk, "edit", "12", uuid.uuid4(), turn=0)
    assert (act.state, act.kind, act.text, act.turn, act.by, act.done_at) == (
        "pending",
        "edit",
        "12",
        0,
        alice,
        None,
    )
    assert (
        list_pending_interventions([rollout.pk]) == [act]
        and list_pending_interventions([rollout.pk + 1]) == []
    )


@pytest.mark.parametrize(
    ("kind", "text", "acts"),
    [
        ("stop", "", ["rollout stopped"]),
        ("edit", "12", ["rollout edited"]),
        ("seat", "12", ["rollout's turn typed"]),
        ("hold", "", []),
    ],
)
def test_intervention_that_changes_a_reply_is_recorded_once_in_the_audit_log(
    rollout, alice, kind, text, acts
):
    name = uuid.uuid4()
    for _ in range(2):
        request_intervention(alice, rollout.pk, kind, text, name)
    entries = AuditEntry.objects.filter(by=alice)
    assert list(entries.values_list("action", flat=True)) == acts
    assert all(
        entry.target == rollout.run.address and entry.details == {"rollout": rollout.pk}
        for entry in entries
    )


def test_explorer_is_notified_after_the_intervention_is_stored(
    rollout, alice, monkeypatch, django_capture_on_commit_callbacks
):
    rung = []
    monkeypatch.setattr(
        "apps.streaming.worker_notifications.notify_workers",
        lambda *stations: rung.append((stations, Intervention.objects.count())),
    )
    with django_capture_on_commit_callbacks(execute=True):
        request_intervention(alice, rollout.pk, "stop", "", uuid.uuid4())
    assert rung == [(("explore",), 1)]


def test_rater_may_intervene_only_where_the_run_allows_it(new_run, rollout, bob, alice):
    assert code(bob, rollout.pk, "stop", "", uuid.uuid4()) == "not_yours"
    open_run = new_run(people={"steer": True})
    (group,) = Group.open(open_run, "explorer", 60, 1, 0)
    act = request_intervention(bob, group.rollouts.first().pk, "stop", "", uuid.uuid4())
    assert act.state == "pending"
    assert runs_steered_by(bob, [rollout.run, open_run]) == {open_run.pk}
    assert runs_steered_by(alice, [rollout.run, open_run]) == {rollout.run_id, open_run.pk}


def test_viewers_and_strangers_may_not_intervene_but_an_administrator_may(
    project, rollout, carol, admin
):
    assert code(carol, rollout.pk, "stop", "", uuid.uuid4()) == "not_yours"
    Membership.objects.create(project=project, user=carol, role=Membership.Role.VIEWER)
    assert code(carol, rollout.pk, "stop", "", uuid.uuid4()) == "not_yours"
    assert request_intervention(admin, rollout.pk, "stop", "", uuid.uuid4()).by == admin


def test_permission_for_many_runs_takes_one_query(new_run, alice, django_assert_num_queries):
    runs = [new_run() for _ in range(3)]
    with django_assert_num_queries(1):
        runs_steered_by(alice, runs)


def test_repeated_uuid_returns_the_same_intervention_and_rejects_a_different_one(
    rollout, alice, bob
):
    key = uuid.uuid4()
    act = request_intervention(alice, rollout.pk, "edit", "12", key)
    assert request_intervention(alice, rollout.pk, "edit", "12", key) == act
    assert code(alice, rollout.pk, "edit", "13", key) == "used_uuid"
    assert code(alice, rollout.pk, "stop", "", key) == "used_uuid"


def test_repeated_uuid_is_accepted_after_the_rollout_ended(rollout, alice):
    key = uuid.uuid4()
    act = request_intervention(alice, rollout.pk, "stop", "", key)
    Rollout.objects.filter(pk=rollout.pk).update(state=Rollout.State.FINISHED)
    assert request_intervention(alice, rollout.pk, "stop", "", key) == act
    assert code(alice, rollout.pk, "stop", "", uuid.uuid4()) == "ended"


@pytest.mark.parametrize(
    "kind, text, expected",
    [
        ("edit", "", "bad_text"),
        ("seat", "  \n", "bad_text"),
        ("edit", "1" * 100_001, "bad_text"),
        ("edit", "1\x002", "bad_text"),
        ("seat", "\ud83d", "bad_text"),
        ("stop", "why", "bad_act"),
        ("kill", "", "bad_act"),
    ],
)
def test_invalid_intervention_is_rejected_with_a_code(rollout, alice, kind, text, expected):
    assert code(alice, rollout.pk, kind, text, uuid.uuid4()) == expected
    assert not Intervention.objects.exists()


def test_rollout_of_a_stopped_run_cannot_be_changed(run, rollout, alice):
    run.stop()
    assert code(alice, rollout.pk, "stop", "", uuid.uuid4()) == "ended"


@pytest.mark.django_db(transaction=True)
def test_intervention_requested_during_the_rollouts_end_is_rejected_or_never_executed(
    rollout, alice
):
    ending = threading.Event()
    asking = threading.Event()
    outcomes = []

    def end() -> None:
        with transaction.atomic():
            Rollout.objects.filter(pk=rollout.pk).update(state=Rollout.State.FINISHED)
            ending.set()
            asking.wait(30)
            refuse_left([rollout.pk])
        connection.close()

    def beg() -> None:
        try:
            outcomes.append(request_intervention(alice, rollout.pk, "stop", "", uuid.uuid4()))
        except CannotAct as refusal:
            outcomes.append(refusal.code)
        connection.close()

    ends = threading.Thread(target=end)
    asks = threading.Thread(target=beg)
    ends.start()
    ending.wait(30)
    asks.start()
    asks.join(0.5)
    assert asks.is_alive(), "it must wait for the end to be written"
    asking.set()
    ends.join()
    asks.join()
    assert outcomes == ["ended"] and not Intervention.objects.exists()


def test_a_correction_becomes_lessons_once(rollout, alice, run):
    act = request_intervention(alice, rollout.pk, "edit", "123", uuid.uuid4())
    mark_done(act, "12x")
    task, prompt = rollout.group.task_id, rollout.group.task.prompt
    corrections = [
        Correction(rollout.pk, act.pk, task, prompt, "12345", "12x"),
        Correction(rollout.pk, act.pk, task, prompt, "54321", ""),
        Correction(rollout.pk, act.pk, None, [*prompt, *prompt], "12345 and more", "12345"),
    ]
    keep_corrections(run, corrections)
    keep_corrections(run, corrections)
    assert set(Demonstration.objects.values_list("answer", "task")) == {
        ("12345", task),
        ("54321", task),
        ("12345 and more", None),
    }
    # If the policy's text is only the beginning of the correction, there is no rejected reply.
    preference = Preference.objects.get()
    assert (preference.chosen, preference.rejected, preference.author, preference.run) == (
        "12345",
        "12x",
        alice,
        run,
    )


def test_typed_text_is_stored_with_its_author(rollout, run, alice, django_assert_num_queries):
    act = request_intervention(alice, rollout.pk, "edit", "bc", uuid.uuid4())
    mark_done(act)
    text = "abcd\n\nand?\n\nyes"
    turns = (
        Turn(POLICY, "abcd", 0, 0, 4, (TypedSpan(act.pk, 1, 3, 1, 2),)),
        Turn(USER, "and?", 6, 4, 3),
        Turn(POLICY, "yes", 12, 7, 3),
    )
    Group.finish_rollouts(
        {rollout.group_id: rollout.group.claimed},
        [Outcome(rollout.pk, tokens_of(text), text, "stop", turns)],
    )
    rollout.refresh_from_db()
    with django_assert_num_queries(1):
        (span,) = typed_spans(rollout)
        assert (text[span.start : span.end], span.turn, span.first_token, span.past_token) == (
            "bc",
            0,
            1,
            3,
        )
        assert span.intervention.by == alice
    assert typists(rollout) == [alice.pk]


def test_stop_does_not_make_the_person_an_author(rollout, alice):
    mark_done(request_intervention(alice, rollout.pk, "stop", "", uuid.uuid4()))
    assert typists(rollout) == []
