"""The Python client against the real application: its requests take effect, and responses have
types.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import pytest

from apps.environments.closing import fail_episode
from apps.environments.models import Environment, Episode, EpisodeTurn
from apps.environments.playing import Action, record_actions
from rftweb_client import (
    AsyncClient,
    Client,
    Conflict,
    Gone,
    NotAcceptable,
    NotFound,
    NotNow,
    Reward,
    Step,
    Task,
    Unauthorized,
)
from tests.web_process import Wire

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
MAZE = {"version": "3", "reward_low": -1.0, "reward_high": 1.0, "turn_limit": 3}


@pytest.fixture
def client(served, token) -> Iterator[Client]:
    with Client(served, token, patience_s=20) as client:
        yield client


@pytest.fixture
def ask(served, token, call) -> Callable[..., object]:
    """Call a method of the blocking or the async client by its name."""
    return partial(call, served, token=token)


@pytest.fixture
def stop() -> threading.Event:
    return threading.Event()


@pytest.fixture
def aside(stop) -> Iterator[Callable[..., Future]]:
    """Call a function in a thread, so that the test can act as the policy meanwhile.

    Stop the players at the end.
    """
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit
        stop.set()


def test_environment_is_registered_once_and_changed(client):
    first = client.register("maze", "lab", **MAZE)
    assert client.register("maze", "lab", **MAZE) == first
    assert (first.version, first.reward_low, first.project) == ("3", -1.0, "lab")
    with pytest.raises(Conflict, match="change it with PATCH"):
        client.register("maze", "lab", **{**MAZE, "turn_limit": 4})
    assert client.change("maze", "lab", turn_limit=4).turn_limit == 4
    with pytest.raises(NotNow, match="No active run uses it"):
        client.take("maze", at_once=True)


def test_refusals_raise_errors_with_their_fields(client, served):
    with pytest.raises(NotAcceptable, match="turn_limit: ") as raised:
        client.register("maze", turn_limit=0)
    assert list(raised.value.errors) == ["turn_limit"] and raised.value.title
    with pytest.raises(NotFound):
        client.take("tower")
    with pytest.raises(Unauthorized), Client(served, "rft_usr_wrong") as stranger:
        stranger.register("maze")


def test_episode_is_taken_played_and_rewarded(ask, open_group, aside, eventually):
    ask("register", "maze", **MAZE)
    ids = open_group("maze")
    episode = ask("take", "maze", key="game-1")
    assert ask("take", "maze", key="game-1") == episode and episode.id == ids[0]
    assert (
        isinstance(episode.task, Task)
        and episode.task.answer["sorted"]
        and (episode.next, episode.turn_limit) == (0, 3)
    )

    waiting = aside(
        ask, "turn", episode.id, 0, "You stand at a fork.", timeout_s=0.2
    )  # so that it is also polled
    eventually(lambda: EpisodeTurn.objects.filter(episode=episode.id).exists())
    record_actions([Action(episode.id, 0, "left", 0, 1)])
    turn = waiting.result(120)
    assert (turn.action, turn.state, turn.tokens, turn.next) == ("left", "environment", 1, 1)
    assert ask("turn", episode.id, 0, "You stand at a fork.") == turn

    taken, unknown, too_much = ask(
        "reward", [Reward(episode.id, 0.5, turn=0), Reward(99_999, 1.0), Reward(episode.id, 7.0)]
    )
    assert (taken.status, taken.turn, taken.is_late, unknown.status, too_much.status) == (
        201,
        0,
        False,
        404,
        422,
    )
    ended = ask("result", episode.id, reward=0.5, reason="out of the maze")
    assert (ended.state, ended.reason) == ("done", "out of the maze")
    with pytest.raises(Gone, match="out of the maze"):
        ask("turn", episode.id, 1, "Anybody there?")


def test_turn_survives_a_cut_of_the_waiting_connection(
    token, served, client, open_group, aside, eventually
):
    wire = Wire(int(served.rsplit(":", 1)[1]))
    client.register("maze", **MAZE)
    open_group("maze")
    episode = client.take("maze")
    with Client(wire.address, token) as wired:
        waiting = aside(wired.turn, episode.id, 0, "You stand at a fork.")
        eventually(lambda: EpisodeTurn.objects.filter(episode=episode.id).exists())
        wire.cut()
        record_actions([Action(episode.id, 0, "left", 0, 1)])
        wire.mend()
        assert waiting.result(120).action == "left"
    assert EpisodeTurn.objects.filter(episode=episode.id).count() == 1
    wire.close()


# -- the loop


class Fork:
    """An environment that rewards "left", gives no reward otherwise, and raises at "break"."""

    name = "fork"
    settings = {"turn_limit": 2}

    def reset(self, seed: int, task: Task) -> str:
        self.seed = seed
        return f"{task.prompt[0]['content']}: left or right?"

    def step(self, action: str) -> Step:
        if action == "break":
            raise RuntimeError("the fork is bent")
        return Step("Once more.", reward=1.0 if action == "left" else None, done=action == "left")


def test_environment_class_is_played_until_it_is_stopped(
    stop, ask, open_group, act_until_done, aside, eventually
):
    playing = aside(ask, "play", Fork, until=stop.is_set)
    eventually(Environment.objects.filter(name="fork").exists)
    ids = open_group("fork")
    act_until_done(ids, lambda heard: "left" if len(heard) == 2 else "right")
    stop.set()
    assert playing.result(120) == 2
    earned = EpisodeTurn.objects.filter(episode__in=ids, answered_at__isnull=False).order_by(
        "episode", "number"
    )
    assert list(earned.values_list("reward", flat=True)) == [None, 1.0, None, 1.0]


def test_exception_in_the_class_fails_the_episode_with_its_message(
    stop, client, open_group, aside, eventually
):
    playing = aside(client.play, Fork, until=stop.is_set)
    eventually(Environment.objects.filter(name="fork").exists)
    ids = open_group("fork")
    eventually(lambda: EpisodeTurn.objects.filter(episode=ids[0]).exists())
    record_actions([Action(ids[0], 0, "break", 0, 1)])
    with pytest.raises(RuntimeError, match="the fork is bent"):
        playing.result(120)
    failed = Episode.objects.get(pk=ids[0])
    assert (failed.state, failed.reason) == ("failed", "RuntimeError: the fork is bent")


def test_next_episode_is_played_after_one_that_was_ended_from_outside(
    stop, client, open_group, act_until_done, aside, eventually
):
    playing = aside(client.play, Fork, until=stop.is_set)
    eventually(Environment.objects.filter(name="fork").exists)
    first, second = open_group("fork")
    eventually(lambda: EpisodeTurn.objects.filter(episode=first).exists())
    fail_episode(first, "the explorer went away")
    act_until_done([second], lambda heard: "left")
    stop.set()
    assert playing.result(120) == 2


class SlowFork(Fork):
    """The same with async methods."""

    async def reset(self, seed: int, task: Task) -> str:
        await asyncio.sleep(0)
        return super().reset(seed, task)

    async def step(self, action: str) -> Step:
        await asyncio.sleep(0)
        return super().step(action)


def test_several_players_run_in_one_event_loop(
    stop, served, token, open_group, act_until_done, aside, eventually
):

    async def play_two() -> list[int]:
        async with AsyncClient(served, token) as client:
            return await asyncio.gather(
                *[client.play(SlowFork, until=stop.is_set) for _ in range(2)]
            )

    playing = aside(asyncio.run, play_two())
    eventually(Environment.objects.filter(name="fork").exists)
    ids = open_group("fork")
    eventually(
        lambda: EpisodeTurn.objects.filter(episode__in=ids).count() == 2
    )  # the policy has not acted: both are played
    act_until_done(ids, lambda heard: "left")
    stop.set()
    assert playing.result(120) == [1, 1]
