"""The socket /ws: an outside client plays an episode, and errors have OpenEnv's format."""

import json

import pytest

from apps.environments.models import Environment, PlaySession
from tests.environments.openenv.conftest import connected

pytestmark = pytest.mark.django_db(transaction=True)
WS = "/openenv/lab/guess_number/ws"


def test_outside_episode_is_played_and_stored_without_training(play, guessing, secret, alice):
    async def whole():
        async with connected(WS, secret) as wire:
            told = [await wire.ask("reset", {"seed": 3, "episode_id": "mine"})]
            for guess in ("1", "16", "8"):
                told.append(await wire.ask("step", {"action": guess}))
            return *told, await wire.ask("state")

    first, low, high, right, state = play(whole)
    nothing = {"observation": {"text": "", "metadata": {}}, "reward": None, "done": False}
    assert first == {"type": "observation", "data": nothing}
    assert low["data"] == {
        "observation": {"text": "higher", "metadata": {}},
        "reward": 0.0,
        "done": False,
    }
    assert high["data"]["observation"]["text"] == "lower"
    assert right["data"] == {
        "observation": {"text": "yes", "metadata": {}},
        "reward": 1.0,
        "done": True,
    }
    episode = guessing.episodes.get()
    assert (state["type"], state["data"]["episode_id"], state["data"]["step_count"]) == (
        "state",
        "mine",
        3,
    )
    assert state["data"]["episode"] == episode.pk and state["data"]["done"]
    assert (episode.run, episode.rollout, episode.state, episode.seed) == (None, None, "done", 3)
    assert list(episode.seen.values_list("action", "reward")) == [
        ("1", 0.0),
        ("16", 0.0),
        ("8", 1.0),
        ("", None),
    ]
    assert (episode.session.user, episode.session.reason) == (alice, "its client closed it")
    assert episode.session.closed_at is not None


WRONG = [
    ("{", "INVALID_JSON"),
    ('{"type": "reset", "data": {"seed": NaN}}', "INVALID_JSON"),
    ('{"type": "state", "type": "state"}', "INVALID_JSON"),
    ("[]", "UNKNOWN_TYPE"),
    ('{"type": "render"}', "UNKNOWN_TYPE"),
    ('{"type": ["reset"]}', "UNKNOWN_TYPE"),
    ('{"type": "reset", "seed": 3}', "VALIDATION_ERROR"),
    ('{"type": "reset", "data": {"seed": "3"}}', "VALIDATION_ERROR"),
    ('{"type": "reset", "data": {"seed": -1}}', "VALIDATION_ERROR"),
    ('{"type": "reset", "data": {"seed": true}}', "VALIDATION_ERROR"),
    ('{"type": "reset", "data": {"episode_id": 7}}', "VALIDATION_ERROR"),
    ('{"type": "step"}', "VALIDATION_ERROR"),
    ('{"type": "step", "data": "4"}', "VALIDATION_ERROR"),
    ('{"type": "step", "data": {"action": "4"}}', "EXECUTION_ERROR"),
    ('{"type": "reset", "data": {"low": 9, "high": 2}}', "EXECUTION_ERROR"),
]


def test_invalid_message_returns_an_error_and_the_socket_stays_open(play, guessing, secret):
    async def whole():
        async with connected(WS, secret) as wire:
            return [await wire.say(text) for text, _ in WRONG], await wire.ask("state")

    errors, state = play(whole)
    assert [(error["type"], error["data"]["code"]) for error in errors] == [
        ("error", code) for _, code in WRONG
    ]
    assert state["type"] == "state"


def test_invalid_action_is_rejected_by_field_and_takes_no_turn(play, guessing, secret):
    async def whole():
        async with connected(WS, secret) as wire:
            await wire.ask("reset", {"seed": 3})
            wrong = [
                await wire.ask("step", said)
                for said in ({"action": 4}, {}, {"action": "4", "more": 1})
            ]
            return *wrong, await wire.ask("step", {"action": "8", "metadata": {"mine": True}})

    *wrong, right = play(whole)
    assert {one["data"]["code"] for one in wrong} == {"VALIDATION_ERROR"}
    assert wrong[0]["data"]["errors"][0]["loc"] == ["action"]
    assert right["data"]["done"] and right["data"]["reward"] == 1.0


def test_the_last_turn_ends_the_episode_and_after_it_only_a_reset_follows(play, guessing, secret):
    Environment.objects.filter(pk=guessing.pk).update(turn_limit=2)

    async def whole():
        async with connected(WS, secret, code=1006) as wire:
            await wire.ask("reset", {"seed": 3})
            told = [await wire.ask("step", {"action": "16"}) for _ in range(3)]
            return *told, await wire.ask("reset", {"seed": 3})

    first, last, beyond, again = play(whole)
    assert (first["data"]["done"], last["data"]["done"]) == (False, True)
    assert last["data"]["metadata"] == {"truncated": "turn limit"}
    assert beyond["data"] == {
        "message": "The episode has ended: reset first.",
        "code": "EXECUTION_ERROR",
    }
    assert again["type"] == "observation"
    ended, open_then = guessing.episodes.order_by("pk")
    assert (ended.state, ended.reason) == ("done", "turn limit")
    assert (open_then.state, open_then.reason) == ("abandoned", "the connection was lost")


def test_episode_over_its_time_limit_is_abandoned_without_counting_as_a_failure(
    play, guessing, secret
):
    Environment.objects.filter(pk=guessing.pk).update(episode_s=0.001)

    async def whole():
        async with connected(WS, secret) as wire:
            await wire.ask("reset", {"seed": 3})
            return await wire.ask("step", {"action": "8"})

    assert play(whole)["data"] == {
        "message": "the episode took longer than 0.001 s",
        "code": "EXECUTION_ERROR",
    }
    assert guessing.episodes.get().state == "abandoned"
    assert Environment.objects.get(pk=guessing.pk).failures == 0


def test_reset_abandons_the_previous_episode(play, guessing, secret):
    async def whole():
        async with connected(WS, secret) as wire:
            for _ in range(2):
                await wire.ask("reset")
            await wire.ask("reset")
            await wire.communicator.send_to(text_data=json.dumps({"type": "close"}))
            return await wire.closed()

    assert play(whole)["code"] == 1000
    reasons = ["its client started another", "its client started another", "its client closed it"]
    assert list(guessing.episodes.order_by("pk").values_list("state", "reason")) == [
        ("abandoned", reason) for reason in reasons
    ]
    assert PlaySession.objects.get().reason == "its client closed it"


def test_options_of_a_reset_override_those_of_the_environment(play, guessing, secret):
    Environment.objects.filter(pk=guessing.pk).update(options={"low": 2, "high": 3})

    async def whole():
        async with connected(WS, secret) as wire:
            await wire.ask("reset", {"seed": 3, "high": 2})
            return await wire.ask("step", {"action": "2"})

    assert play(whole)["data"]["done"]
    assert guessing.episodes.get().options == {"low": 2, "high": 2}


def test_client_that_sends_an_oversized_message_is_disconnected(play, guessing, secret):
    async def whole():
        async with connected(WS, secret) as wire:
            await wire.communicator.send_to(text_data="x" * ((1 << 20) + 1))
            return await wire.hear(), await wire.closed()

    told, closed = play(whole)
    assert told["data"]["code"] == "SESSION_ERROR" and closed["code"] == 1009
