"""The same interventions and dialogues on vLLM, whose requests run in other processes."""

import pytest

from apps.rollouts.models import Rollout
from apps.rollouts.turns import list_turns
from apps.tasksets.models import Task

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def vllm_run(watched_run):
    watched_run.config = {**watched_run.config, "engine": "vllm"}
    watched_run.save(update_fields=["config"])
    Task.objects.update(follow_ups=["99", "8-8"])
    return watched_run


@pytest.mark.nightly
def test_people_edit_type_hold_and_stop_rollouts_on_vllm(vllm_run, stage, alice):
    stage.patience = 600  # vLLM starts its own processes
    edited, typed, held, stopped = stage.caught(4, alice)
    begun = edited.turn.text[:2]
    which = edited.turns.index(edited.turn)  # on a slow machine it may be in a later turn
    kept = list(edited.logprobs)
    assert stage.ask(alice, edited, "edit", f"{begun}==").state == "done"
    assert stage.ask(alice, typed, "seat", "12345", turn=0).state == "done"
    assert stage.ask(alice, held, "free").state == "done"
    assert stage.ask(alice, stopped, "stop").state == "done"
    done = {
        in_flight: stage.ended(in_flight.rollout_id) for in_flight in (edited, typed, held, stopped)
    }
    assert all(rollout.state == Rollout.State.FINISHED for rollout in done.values())
    assert list_turns(done[typed])[0].text == "12345" and list_turns(done[typed])[1].text == "99"
    tokens = done[edited].tokens
    first = tokens.action_mask.index(0)
    assert tokens.logprobs[:first] == pytest.approx(kept[:first]) and list_turns(done[edited])[
        which
    ].text.startswith(f"{begun}==")
    # Tokens after the edit were sampled given everything before them: vLLM's own logprobs of one
    # pass over the whole text are equal.
    again = stage.session.engine.probe_logprobs((*tokens.prompt_ids, *tokens.completion_ids))[
        len(tokens.prompt_ids) - 1 :
    ]
    own = [
        (kept, now)
        for kept, now, mask in zip(tokens.logprobs, again, tokens.action_mask, strict=True)
        if mask
    ]
    assert [kept for kept, _ in own] == pytest.approx([now for _, now in own], abs=2e-2)
