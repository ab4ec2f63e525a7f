"""A rollout longer than its slice is interrupted and continued: the same tokens with any explorer,
and nothing stored is lost.
"""

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from django.db import connection

from apps.dashboard.reconciliation import CHECKS
from apps.feedback.interventions import request_intervention, typed_spans
from apps.feedback.models import Intervention
from apps.policies.manifest import read_manifest
from apps.rollouts.models import Group, Rollout
from apps.rollouts.partial import PartialRollout
from apps.rollouts.turns import list_turns
from apps.runs.models import Run, WeightVersion, Worker
from apps.tasksets.models import Task
from tests.workers.engines.talking import Reply, build_loud, gaps
from tests.workers.explorer.conftest import another
from workers.explorer import loop
from workers.policies.tiny import build_tiny

pytestmark = pytest.mark.django_db(transaction=True)
SLICE = 8
ROOT = Path(__file__).parents[3]


@pytest.fixture
def sliced_run(new_run, tiny_policy) -> Run:
    """Create a run with 2 groups of 8 whose answers end at one token in twenty, or after 110:
    nearly all are longer than a slice.
    """
    return new_run(
        sampling={"max_tokens": 110, "slice_tokens": SLICE},
        engine="transformers",
        group_size=8,
        max_staleness=0,
    )


def settled(stage) -> list[Rollout]:
    """Wait until all rollouts are finished, and return them."""

    def look() -> bool:
        stage.explorer.serve()
        return Group.objects.exists() and not Group.objects.filter(state="sampling").exists()

    stage.eventually(look, 300)
    return list(Rollout.objects.order_by("pk"))


def set_aside(stage, slices: int = 1) -> dict[int, PartialRollout]:
    """Return the stored rollouts once a group was released with rollouts of `slices` slices and not
    taken again.
    """

    def look() -> dict[int, PartialRollout]:
        stage.explorer.serve()
        left = PartialRollout.objects.filter(
            slices__gte=slices, rollout__group__lease_until=None
        ).exclude(left_fence=None)
        return left.in_bulk() if left.exists() else {}

    return stage.eventually(look, 300)


def another_explorer() -> loop.ExplorerLoop:
    return loop.ExplorerLoop(
        Worker.objects.create(key="another@test", role=Worker.Role.EXPLORER, host="test", pid=2)
    )


def reply_of(rollout: Rollout) -> Reply:
    """Return the reply as an engine would have delivered it in one piece."""
    tokens = rollout.tokens
    said_by = [
        next(v for start, v in reversed(tokens.segments) if start <= n)
        for n in range(len(tokens.completion_ids))
    ]
    return Reply(
        tokens.prompt_ids,
        list(tokens.completion_ids),
        list(tokens.logprobs),
        said_by,
        rollout.stop_reason,
    )


def clean() -> list[str]:
    return [f"{check.name}: {found}" for check in CHECKS for found in check.find()]


# -- the same as in one go


def test_logprobs_of_sliced_rollouts_match_one_pass_over_the_whole(sliced_run, stage, untrained):
    rollouts = settled(stage)
    long = [rollout for rollout in rollouts if rollout.completion_tokens > 3 * SLICE]
    assert long and {rollout.state for rollout in rollouts} == {"finished"}
    assert gaps(untrained, [reply_of(rollout) for rollout in long]).max() < 1e-4
    for rollout in rollouts:
        tokens = rollout.tokens
        assert rollout.stop_reason in ("stop", "length") and (
            rollout.stop_reason == "stop" or rollout.completion_tokens == 110
        )
        assert tokens.segments == ((0, 0),) and set(tokens.action_mask) == {1}
        assert rollout.text == stage.session.chat_tokenizer.text(list(tokens.completion_ids))
    assert not PartialRollout.objects.exists() and clean() == []


def test_nearly_greedy_replies_are_equal_in_slices_and_in_one_piece(
    new_run, policy, tmp_path, stage
):
    build_loud(tmp_path / "loud", seed=0)
    fields = {
        "folder": str(tmp_path / "loud"),
        "fingerprint": read_manifest(tmp_path / "loud").fingerprint,
        "context_tokens": 128,
    }
    type(policy).objects.filter(pk=policy.pk).update(**fields)
    said = []
    for slice_tokens in (None, SLICE):
        sampling = {"max_tokens": 60, "temperature": 0.001, "slice_tokens": slice_tokens}
        run = new_run(
            sampling=sampling,
            engine="transformers",
            group_size=2,
            groups_per_step=4,
            max_staleness=0,
        )
        rollouts = [rollout for rollout in settled(stage) if rollout.run_id == run.pk]
        said.append(
            {(rollout.group.task_id, rollout.sample_index): rollout.tokens for rollout in rollouts}
        )
    whole, sliced = said
    sure = {
        key: next((n for n, one in enumerate(of.logprobs) if one < -1e-5), len(of.logprobs))
        for key, of in whole.items()
    }
    assert max(sure.values()) > 3 * SLICE
    for key, count in sure.items():  # up to where two tokens are about equally likely
        assert sliced[key].completion_ids[:count] == whole[key].completion_ids[:count]
        assert sliced[key].logprobs[:count] == pytest.approx(whole[key].logprobs[:count], abs=1e-4)


# -- whoever goes on


def test_another_explorer_continues_interrupted_rollouts(sliced_run, stage):
    left = {pk: kept.tokens for pk, kept in set_aside(stage).items()}
    other = another_explorer()
    try:
        stage.explorer, first = other, stage.explorer
        rollouts = {rollout.pk: rollout.tokens for rollout in settled(stage)}
    finally:
        stage.explorer = first
        other.stop()
    for pk, before in left.items():
        count = len(before.completion_ids)
        assert (
            rollouts[pk].completion_ids[:count] == before.completion_ids
            and rollouts[pk].logprobs[:count] == before.logprobs
        )
        assert len(rollouts[pk].completion_ids) > count
    assert clean() == []


def test_interrupted_rollouts_are_continued_before_new_ones_start(
    new_run, tiny_policy, stage, monkeypatch
):
    new_run(
        sampling={"max_tokens": 110, "slice_tokens": SLICE},
        engine="transformers",
        group_size=8,
        max_staleness=5,
    )
    monkeypatch.setattr(loop, "ROLLOUTS_IN_FLIGHT", 8)  # room for one group
    left = set_aside(stage)
    (group,) = Group.objects.filter(rollouts__in=left).distinct()
    stage.explorer.looked_at = 0.0
    stage.explorer._look_for_work()
    assert {in_flight.claim.pk for in_flight in stage.session.rollouts.values()} == {group.pk}
    assert {in_flight.rollout_id for in_flight in stage.session.rollouts.values()} == set(left)


def test_stored_slices_survive_kill_9_of_their_explorer(sliced_run, stage, untrained):
    command = [
        sys.executable,
        "-m",
        "tests.workers.explorer.mortal_explorer",
        connection.settings_dict["NAME"],
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as mortal:
        try:
            assert mortal.stdout.readline() == "further\n"
        finally:
            os.kill(mortal.pid, signal.SIGKILL)
    stored = {
        pk: kept.tokens.completion_ids for pk, kept in PartialRollout.objects.in_bulk().items()
    }
    held = Group.objects.filter(state="sampling", lease_owner="mortal")
    assert stored and held.exists()
    held.update(lease_until="2020-01-01T00:00:00Z")  # the dead explorer's lease has expired
    rollouts = settled(stage)
    for rollout in rollouts:
        assert rollout.tokens.completion_ids[: len(stored.get(rollout.pk, ()))] == stored.get(
            rollout.pk, ()
        )
    for pk in stored:  # watchers get all of it again: more was sent than stored
        assert (
            stage.watched(Rollout.objects.get(pk=pk)).texts[pk] == Rollout.objects.get(pk=pk).text
        )
    assert gaps(untrained, [reply_of(rollout) for rollout in rollouts]).max() < 1e-4
    assert clean() == []


def test_explorer_that_lost_its_group_stores_no_slices(sliced_run, stage):
    stage.streaming()
    kept = set(
        PartialRollout.objects.values_list("rollout", "completion_tokens")
    )  # slices of others may have ended earlier
    Group.objects.update(fence=99)
    stage.eventually(lambda: stage.explorer.serve() and not stage.session.rollouts, 300)
    assert set(PartialRollout.objects.values_list("rollout", "completion_tokens")) == kept


# -- new weights


def test_rollout_continues_with_new_weights_and_keeps_its_first_version(
    sliced_run, stage, untrained, tmp_path
):
    set_aside(stage)
    sealed = build_tiny(tmp_path / "v1", seed=1)
    version = WeightVersion.objects.create(
        run=sliced_run,
        version=1,
        folder=str(tmp_path / "v1"),
        fingerprint=sealed.fingerprint,
        step=1,
    )
    version.verify()
    version.publish()
    rollouts = settled(stage)
    mixed = [rollout for rollout in rollouts if rollout.tokens.versions == (0, 1)]
    assert mixed and all(
        (rollout.first_version, rollout.last_version) == (0, 1) for rollout in mixed
    )
    replies = [reply_of(rollout) for rollout in mixed]
    assert (
        gaps(untrained, replies, version=0).max() < 1e-4
        and gaps(tmp_path / "v1", replies, version=1).max() < 1e-4
    )
    assert gaps(untrained, replies, version=1).max() > 0.01  # else the test shows nothing


# -- people and those who watch


def test_watching_page_shows_every_token_once_across_slices(sliced_run, stage):
    long = [rollout for rollout in settled(stage) if rollout.completion_tokens > 2 * SLICE]
    assert long
    for rollout in long:
        assert (
            stage.watched(rollout).texts[rollout.pk] == rollout.text
        )  # fails at a gap or at a repetition


def test_typed_text_is_kept_across_slices_and_shown_to_watchers(sliced_run, stage, alice):
    in_flight = stage.streaming()
    text = in_flight.turn.text[:2] + another(in_flight.turn.text[2]) + "12"
    act = stage.ask(alice, in_flight, "edit", text)
    assert act.state == Intervention.State.DONE
    rollout = stage.ended(in_flight.rollout_id)
    assert rollout.text.startswith(text) and rollout.completion_tokens > len(text)
    (span,) = typed_spans(rollout)
    assert (rollout.text[span.start : span.end], span.intervention) == (text[2:], act)
    assert stage.watched(rollout).texts[rollout.pk] == rollout.text


def test_held_rollout_keeps_the_lease_of_its_group(sliced_run, stage, alice):
    in_flight = stage.streaming()
    request_intervention(alice, in_flight.rollout_id, "hold", "", uuid.uuid4())

    def others_wait() -> bool:
        stage.explorer.serve()
        return all(
            one is in_flight or one.is_stored
            for one in stage.session.rollouts.values()
            if one.claim == in_flight.claim
        )

    stage.eventually(others_wait, 300)
    group = Group.objects.get(pk=in_flight.claim.pk)
    assert (
        group.lease_owner == "explorer@test" and stage.in_flight(in_flight.rollout_id) is in_flight
    )
    assert stage.ask(alice, in_flight, "free").state == Intervention.State.DONE
    assert stage.ended(in_flight.rollout_id).state == Rollout.State.FINISHED


def test_dialogue_continues_in_the_interrupted_turn(sliced_run, stage):
    Task.objects.update(follow_ups=["99", "8-8"])
    whole = [
        rollout
        for rollout in settled(stage)
        if rollout.completion_tokens > 2 * SLICE and len(list_turns(rollout)) > 1
    ]
    assert whole
    tokenizer = stage.session.chat_tokenizer.tokenizer
    for rollout in whole:
        turns = list_turns(rollout)
        tokens = rollout.tokens
        assert sum(turn.tokens for turn in turns) == len(tokens.completion_ids)
        for turn in turns:
            span = slice(turn.first_token, turn.first_token + turn.tokens)
            assert set(tokens.action_mask[span]) == {int(turn.role == "assistant")}
            if turn.role == "assistant" and turn is not turns[-1]:
                assert tokens.completion_ids[span].index(tokenizer.eos_token_id) == turn.tokens - 1
        assert stage.watched(rollout).turns[rollout.pk] == [turn.text for turn in turns]


# -- what ends them


def test_interrupted_answers_end_when_the_length_limit_is_lowered_below_them(sliced_run, stage):
    left = set_aside(stage)
    sliced_run.change_config(None, sampling={"max_tokens": 5})
    rollouts = {rollout.pk: rollout for rollout in settled(stage)}
    for pk, kept in left.items():
        assert (rollouts[pk].stop_reason, rollouts[pk].completion_tokens) == (
            "length",
            kept.completion_tokens,
        )


def test_resumed_run_continues_its_interrupted_rollouts(sliced_run, stage):
    set_aside(stage)
    sliced_run.pause()
    stage.explorer.serve()
    left = Group.objects.filter(state="sampling", lease_until=None)
    assert left.exists()
    sliced_run.resume()
    assert {rollout.state for rollout in settled(stage)} == {"finished"}


def test_stopping_a_run_deletes_its_interrupted_rollouts_and_ends_their_streams(sliced_run, stage):
    left = set_aside(stage)
    sliced_run.stop()
    Group.objects.close_ended()
    stage.explorer.looked_at = 0.0
    stage.explorer.serve()
    assert not PartialRollout.objects.exists() and clean() == []
    for pk in left:
        assert stage.watched(Rollout.objects.get(pk=pk)).ended[pk] == "abandoned"


def test_loop_is_detected_across_slices(new_run, tiny_policy, stage):
    repeats = {"max_pattern_size": 2, "min_count": 2, "min_tokens": 10}  # longer than a slice
    new_run(
        sampling={
            "max_tokens": 110,
            "slice_tokens": SLICE,
            "repeats": repeats,
            "temperature": 0.05,
        },
        engine="transformers",
    )
    assert {
        rollout.stop_reason for rollout in settled(stage) if rollout.completion_tokens >= 40
    } <= {"repetition"}
    assert Rollout.objects.filter(stop_reason="repetition", completion_tokens__gt=SLICE).exists()
