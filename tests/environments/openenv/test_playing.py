"""Environments of every kind, played from outside; when one breaks, its episode fails and the
session goes on.
"""

import asyncio
import os
import signal

import pytest
from django.db import connection

from apps.environments.closing import fail_episode
from apps.environments.episode_opening import assign_episode, open_for
from apps.environments.models import FAILURES_ALLOWED, Environment
from apps.environments.openenv import sessions
from apps.environments.openenv.plays import Play, Unplayable
from apps.environments.playing import observe
from apps.environments.pull.gymnasium import RANGES
from tests.environments.openenv.conftest import connected

pytestmark = pytest.mark.django_db(transaction=True)


def test_failing_service_fails_its_episode_and_the_next_episode_works(
    play, answering, service, secret
):
    broken = {
        "hang": "took longer than 2 s",
        "crash": "has the status 500",
        '{"observation": "a", "reward": 7, "done": false}': "reward: must be a number from 0 to 1",
    }

    async def whole():
        told = []
        async with connected("/openenv/called/ws", secret) as wire:
            for service.breaks in broken:
                await wire.ask("reset", {"seed": 3})
                told.append(await wire.ask("step", {"action": "5"}))
            service.breaks = ""
            await wire.ask("reset", {"seed": 3})
            return told, await wire.ask("step", {"action": "5"})

    told, right = play(whole)
    assert [one["data"]["code"] for one in told] == ["EXECUTION_ERROR"] * 3
    for one, words in zip(told, broken.values(), strict=True):
        assert words in one["data"]["message"]
    assert right["data"] == {
        "observation": {"text": "yes", "metadata": {"number": 1}},
        "reward": 1.0,
        "done": True,
        "metadata": {"number": 1},
    }
    assert list(answering.episodes.order_by("pk").values_list("state", flat=True)) == [
        "failed"
    ] * 3 + ["done"]
    assert not answering.episodes.filter(state="failed", seen__reward__isnull=False).exists()


def test_a_process_that_dies_fails_its_episode_and_another_is_started(play, guessing, alice):
    session = sessions.begin_session(guessing, alice, "ws")

    async def whole():
        played = Play(guessing, session)
        await played.reset({"seed": 3})
        first = played.player.process.pid
        await played.reset({"seed": 3})
        assert played.player.process.pid == first  # one process for all of a session's episodes
        os.kill(first, signal.SIGKILL)
        with pytest.raises(Unplayable, match="its process"):
            await played.step({"action": "8"})
        await played.reset({"seed": 3})
        told = await played.step({"action": "8"})
        pid = played.player.process.pid
        await played.close("the test is over")
        return told, pid

    told, pid = play(whole)
    assert told["done"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert "its process" in guessing.episodes.get(state="failed").reason


def test_gymnasium_can_be_played_until_its_breaker_opens(play, project, secret):
    low, high = RANGES["FrozenLake"]
    lake = Environment.objects.create(
        project=project,
        name="lake",
        kind="gymnasium",
        address="FrozenLake-v1",
        reward_low=low,
        reward_high=high,
        options={"is_slippery": False},
    )

    async def whole():
        async with connected("/openenv/lake/ws", secret) as wire:
            told = [await wire.ask("reset", {"seed": 1})]
            told += [
                await wire.ask("step", {"action": move})
                for move in ("down", "down", "right", "right", "down", "right")
            ]
            await asyncio.to_thread(_break, lake)
            return told, await wire.ask("reset")

    told, resting = play(whole)
    assert "[S]" in told[0]["data"]["observation"]["text"]
    assert (told[-1]["data"]["reward"], told[-1]["data"]["done"]) == (1.0, True)
    assert told[-1]["data"]["metadata"] == {"terminated": True, "truncated": False}
    assert "Its breaker is open after 5 failures in a row: it sank" in resting["data"]["message"]


def _break(lake: Environment) -> None:
    try:
        for _ in range(5):
            session = sessions.begin_session(lake, lake.episodes.first().session.user, "ws")
            fail_episode(open_for(session, lake, 0, {}).pk, "it sank")
    finally:
        connection.close()


def test_invalid_reset_options_do_not_open_the_breaker(play, guessing, secret):
    async def whole():
        async with connected("/openenv/guess_number/ws", secret) as wire:
            broken = [await wire.ask("reset", {"low": "x"}) for _ in range(FAILURES_ALLOWED)]
            return broken, await wire.ask("reset", {"low": 1, "high": 9})

    broken, begun = play(whole)
    assert {told["type"] for told in broken} == {"error"} and "text" in begun["data"]["observation"]
    assert {*guessing.episodes.values_list("state", flat=True)} == {"abandoned"}
    guessing.refresh_from_db()
    assert guessing.failures == 0


def test_environment_that_calls_us_takes_the_episode_and_answers_the_client(
    play, pushed, secret, alice
):
    async def whole():
        async with connected("/openenv/outside/ws", secret) as wire:
            beginning = asyncio.ensure_future(wire.ask("reset", {"seed": 7, "size": 5}))
            await _until(pushed.episodes.exists)
            assert (
                await _in_thread(lambda: assign_episode(pushed, alice)) is None
            )  # only a request for outside episodes gets one
            episode = await _until(lambda: assign_episode(pushed, alice, outside=True))
            await _in_thread(lambda: observe(episode.pk, 0, "a fork"))
            told = [await beginning]
            stepping = asyncio.ensure_future(wire.ask("step", {"action": "left"}))
            await _until(
                lambda: pushed.episodes.filter(
                    state="environment", turns=1, seen__action="left"
                ).exists()
            )
            await _in_thread(
                lambda: observe(
                    episode.pk,
                    1,
                    [{"role": "tool", "content": "exit"}],
                    reward=1,
                    done=True,
                    info={"n": 1},
                )
            )
            return episode, *told, await stepping, await wire.ask("step", {"action": "right"})

    episode, fork, done, over = play(whole)
    assert (episode.run, episode.seed, episode.options, episode.client) == (
        None,
        7,
        {"size": 5},
        alice,
    )
    assert fork["data"]["observation"] == {"text": "a fork", "metadata": {}}
    assert done["data"]["observation"] == {
        "messages": [{"role": "tool", "content": "exit"}],
        "metadata": {"n": 1},
    }
    assert (done["data"]["reward"], done["data"]["done"]) == (1.0, True)
    assert over["data"]["message"] == "The episode has ended: reset first."
    assert pushed.episodes.get().state == "done"


def test_episode_that_no_environment_takes_is_abandoned(play, pushed, secret, alice):
    def may_take(seconds: float) -> None:
        Environment.objects.filter(pk=pushed.pk).update(turn_s=seconds)

    async def whole():
        await _in_thread(lambda: may_take(0.1))
        async with connected("/openenv/outside/ws", secret) as wire:
            untaken = await wire.ask("reset")
        await _in_thread(lambda: may_take(3))
        async with connected("/openenv/outside/ws", secret) as wire:
            beginning = asyncio.ensure_future(wire.ask("reset"))
            await _until(lambda: assign_episode(pushed, alice, outside=True))
            return untaken, await beginning

    untaken, silent = play(whole)
    assert untaken["data"]["message"] == "no worker took the episode within 0.1 s"
    assert silent["data"]["message"] == "took longer than 3 s"
    assert sorted(pushed.episodes.values_list("state", flat=True)) == ["abandoned", "failed"]
    pushed.refresh_from_db()
    assert pushed.failures == 1


async def _until(look):
    async with asyncio.timeout(60):
        while not (found := await _in_thread(look)):
            await asyncio.sleep(0.01)  # a poll: the deadline above decides
        return found


async def _in_thread(work):
    def whole():
        try:
            return work()
        finally:
            connection.close()

    return await asyncio.to_thread(whole)
