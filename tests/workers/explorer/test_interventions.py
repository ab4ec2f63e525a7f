"""Users stop, edit and type rollouts while a real engine writes them; ids, masks, texts and
experiences are checked afterwards.
"""

import uuid

import pytest

from apps.feedback.interventions import CannotAct, refuse_unheard, request_intervention, typed_spans
from apps.feedback.models import Demonstration, Intervention, Preference
from apps.rollouts.models import Rollout
from tests.workers.explorer.conftest import another

pytestmark = pytest.mark.django_db(transaction=True)
DONE = Intervention.State.DONE
REFUSED = Intervention.State.REFUSED


def test_stopped_rollout_keeps_its_text_and_counts_as_finished(watched_run, stage, alice):
    in_flight = stage.streaming()
    said = list(in_flight.token_ids)
    act = stage.ask(alice, in_flight, "stop")
    rollout = stage.ended(in_flight.rollout_id)
    tokens = rollout.tokens
    assert (act.state, rollout.state, rollout.stop_reason) == (
        DONE,
        Rollout.State.FINISHED,
        "stopped by a person",
    )
    assert list(tokens.completion_ids) == said and set(tokens.action_mask) == {1}
    assert (
        rollout.text == act.before == stage.watched(rollout).texts[rollout.pk]
        and typed_spans(rollout) == []
    )


def test_edit_keeps_the_unchanged_tokens_and_the_policy_continues_after_it(
    watched_run, stage, alice
):
    in_flight = stage.streaming()
    before_ids = list(in_flight.token_ids)
    before_logprobs = list(in_flight.logprobs)
    version = stage.session.version
    typed_text = another(in_flight.turn.text[3]) + "12"
    text = in_flight.turn.text[:3] + typed_text
    act = stage.ask(alice, in_flight, "edit", text)
    rollout = stage.ended(in_flight.rollout_id)
    tokens = rollout.tokens
    kept = next(
        n for n, (a, b) in enumerate(zip(tokens.completion_ids, before_ids, strict=False)) if a != b
    )
    typed = tokens.action_mask.index(1, kept) - kept
    assert act.state == DONE and rollout.text.startswith(text)
    assert stage.session.chat_tokenizer.text(list(tokens.completion_ids[: kept + typed])) == text
    assert tokens.completion_ids[:kept] == tuple(before_ids[:kept])
    assert tokens.logprobs[:kept] == pytest.approx(before_logprobs[:kept])
    assert tokens.action_mask == (1,) * kept + (0,) * typed + (1,) * (
        len(tokens.completion_ids) - kept - typed
    )
    assert set(tokens.logprobs[kept : kept + typed]) == {0.0} and all(
        value < 0 for value in tokens.logprobs[kept + typed :]
    )
    assert tokens.segments == ((0, version),) and len(tokens.completion_ids) <= 110
    (span,) = typed_spans(rollout)
    assert (rollout.text[span.start : span.end], span.intervention) == (typed_text, act)
    assert (span.first_token, span.past_token, span.intervention.by) == (kept, kept + typed, alice)
    assert stage.watched(rollout).texts[rollout.pk] == rollout.text


def test_rollout_can_be_edited_repeatedly(watched_run, stage, alice, admin):
    begun = {}
    for in_flight in stage.caught(4, alice):  # several: the policy may end at once
        begun[in_flight] = another(in_flight.turn.text[0])
        assert stage.ask(alice, in_flight, "edit", begun[in_flight]).state == DONE
    in_flight = stage.streaming(tokens=3)
    said = in_flight.turn.text[:2]
    typed = [another(in_flight.turn.text[2]) * 3, "7"]
    second = request_intervention(
        admin, in_flight.rollout_id, "edit", said + typed[0], uuid.uuid4()
    )
    third = request_intervention(
        admin, in_flight.rollout_id, "edit", said + typed[0][:2] + typed[1], uuid.uuid4()
    )
    stage.explorer.serve()
    rollout = stage.ended(in_flight.rollout_id)
    assert {act.state for act in rollout.interventions.filter(pk__in=[second.pk, third.pk])} == {
        DONE
    }
    found = [
        (rollout.text[span.start : span.end], span.intervention.by) for span in typed_spans(rollout)
    ]
    mine = [(begun[in_flight], alice)] if in_flight in begun else []
    assert found == [*mine, (typed[0][:2], admin), ("7", admin)]
    assert sum(1 - here for here in rollout.tokens.action_mask) == len(mine) + 3
    assert (
        rollout.text.startswith(said + typed[0][:2] + "7")
        and stage.watched(rollout).texts[rollout.pk] == rollout.text
    )


def test_late_tokens_of_an_aborted_request_are_ignored(watched_run, stage, monkeypatch):
    in_flight = stage.streaming()
    late = in_flight.request_id
    said = list(in_flight.token_ids)
    drained = []
    drain = stage.session.engine.drain

    def listen(timeout: float) -> list:
        deltas = drain(timeout)
        drained.extend(delta for delta in deltas if delta.request_id == late)
        return deltas

    monkeypatch.setattr(stage.session.engine, "drain", listen)
    stage.session.halt(in_flight)
    stage.eventually(
        lambda: stage.explorer.serve() and any(delta.stop_reason for delta in drained), 300
    )
    assert in_flight.token_ids == said
    stage.session.go_on([in_flight])
    assert stage.ended(in_flight.rollout_id).tokens.completion_ids[: len(said)] == tuple(said)


def test_person_who_takes_the_seat_types_the_whole_answer(watched_run, stage, alice):
    in_flight = stage.streaming()
    act = stage.ask(alice, in_flight, "seat", "12345")
    rollout = stage.ended(in_flight.rollout_id)
    tokens = rollout.tokens
    assert (act.state, rollout.stop_reason, rollout.text) == (DONE, "typed by a person", "12345")
    assert tokens.completion_ids[-1] in stage.session.chat_tokenizer.stop_token_ids
    assert tokens.action_mask[-1] == 0 and stage.watched(rollout).texts[rollout.pk] == "12345"
    demonstration = Demonstration.objects.get()
    said = (demonstration.answer, demonstration.author, demonstration.run, demonstration.task)
    assert said == ("12345", alice, watched_run, rollout.group.task)
    preference = Preference.objects.get()
    assert (preference.chosen, preference.rejected, preference.source) == (
        "12345",
        act.before,
        f"correction of rollout {rollout.pk}",
    )


def test_held_rollout_waits_and_then_continues(watched_run, stage, alice, eventually):
    in_flight = stage.streaming()
    assert stage.ask(alice, in_flight, "hold").state == DONE
    said = list(in_flight.token_ids)
    eventually(lambda: stage.explorer.serve() or len(stage.session.rollouts) == 1, 300)
    stage.explorer.serve()
    assert in_flight.token_ids == said and Rollout.objects.get(pk=in_flight.rollout_id).is_sampling
    assert stage.ask(alice, in_flight, "free").state == DONE
    assert stage.ended(in_flight.rollout_id).tokens.completion_ids[: len(said)] == tuple(said)


def test_hold_ends_at_its_deadline_and_cannot_exceed_the_limit(watched_run, stage, alice):
    in_flight = stage.streaming()
    stage.ask(alice, in_flight, "hold")
    in_flight.held_until = 0.0
    stage.explorer._release_overdue()  # without reading tokens, which may end the rollout
    assert in_flight.request_id and in_flight.held_until is None
    in_flight.held_for = 300.0
    act = stage.ask(alice, in_flight, "hold")
    assert (act.state, "which is the limit" in act.reason) == (REFUSED, True)


@pytest.mark.parametrize(
    "kind, text, words",
    [
        ("edit", "what is this", "cannot encode this text"),
        ("edit", "1<|end|>2", "cannot encode this text"),
        ("edit", "1" * 110, "the text has 11"),
        ("seat", "1" * 110, "the limit for the whole reply is 110"),
        ("free", "", "nobody holds it"),
    ],
)
def test_impossible_act_is_refused_and_the_rollout_continues(
    watched_run, stage, alice, kind, text, words
):
    in_flight = stage.streaming()
    act = stage.ask(alice, in_flight, kind, text)
    assert act.state == REFUSED and words in act.reason
    rollout = stage.ended(in_flight.rollout_id)
    assert rollout.state == Rollout.State.FINISHED and set(rollout.tokens.action_mask) == {1}


def test_act_on_a_turn_that_does_not_exist_is_refused(watched_run, stage, alice):
    assert "no such turn" in stage.ask(alice, stage.streaming(), "edit", "1", turn=3).reason


def test_rollout_without_text_cannot_be_stopped(watched_run, stage, alice):
    stage.explorer._look_for_work()
    in_flight = next(iter(stage.session.rollouts.values()))
    request_intervention(alice, in_flight.rollout_id, "stop", "", uuid.uuid4())
    stage.explorer._do_what_people_ask()
    assert Intervention.objects.get().reason == "the reply has no text yet"


def test_act_after_the_end_of_the_rollout_is_refused(watched_run, stage, alice):
    in_flight = stage.streaming()
    act = request_intervention(alice, in_flight.rollout_id, "edit", "12", uuid.uuid4())
    stage.session.end(in_flight, "stop")
    stage.session.record()
    act.refresh_from_db()
    assert (act.state, act.reason) == (REFUSED, "the reply was already complete")
    with pytest.raises(CannotAct, match="already complete") as refusal:
        request_intervention(alice, in_flight.rollout_id, "stop", "", uuid.uuid4())
    assert refusal.value.code == "ended"


def test_act_without_an_explorer_is_refused_after_a_while(watched_run, stage, alice):
    in_flight = stage.streaming()
    act = request_intervention(alice, in_flight.rollout_id, "stop", "", uuid.uuid4())
    assert refuse_unheard(60) == 0
    assert refuse_unheard(0) == 1
    act.refresh_from_db()
    assert act.reason == "no explorer is writing this reply now"


def test_looking_for_acts_takes_one_query(watched_run, stage, django_assert_num_queries):
    stage.streaming()
    with django_assert_num_queries(1):
        stage.explorer._do_what_people_ask()
