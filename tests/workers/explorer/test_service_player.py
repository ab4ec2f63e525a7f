"""Services that we call, many at once and without blocking; and rollouts played in them by the
real explorer.
"""

import time
from collections.abc import Iterator

import pytest

from apps.dashboard.reconciliation import CHECKS
from apps.environments.models import Environment, Episode
from apps.environments.pull.registering import register_service
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Worker
from tests.guessing_service import Service, serving
from tests.openenv_process import openenv_server
from workers.explorer import loop
from workers.explorer.local_player import Move, Reply
from workers.explorer.service_player import ServicePlayer

SHAPE = {
    "sampling": {"max_tokens": 100},
    "engine": "transformers",
    "group_size": 4,
    "max_staleness": 0,
}


@pytest.fixture
def service(settings) -> Iterator[Service]:
    settings.ENVIRONMENT_HOSTS = ["127.0.0.1"]
    with serving() as server:
        yield server


@pytest.fixture
def player(service) -> Iterator[ServicePlayer]:
    player = ServicePlayer(
        Environment(kind="http", name="called", address=service.address, turn_s=25)
    )
    yield player
    player.stop()


def replies(player: ServicePlayer, several: int) -> dict[int, Reply]:
    found: dict[int, Reply] = {}
    deadline = time.monotonic() + 300
    while len(found) < several:
        assert time.monotonic() < deadline, f"only {found} came"
        found |= {reply.episode: reply for reply in player.replies()}
    return found


def move(episode: int, *actions: str) -> Move:
    return Move(episode, "called", 3, {}, actions)


def test_slow_service_never_blocks_the_explorer(player, service):
    player.ask(move(1))
    replies(player, 1)
    service.breaks = "hang"
    player.ask(move(1, "5"))
    began = time.monotonic()
    assert player.replies() == [] and time.monotonic() - began < 20


def test_hanging_service_fails_only_its_own_episode(player, service):
    player.ask(move(1))
    replies(player, 1)
    service.breaks, player.environment.turn_s = "hang", 1.0
    player.ask(move(1, "5"))
    service.eventually_heard("/step")  # its timeout has started
    player.environment.turn_s = 25.0
    player.ask(move(2))
    found = replies(player, 2)
    assert (found[1].error, found[1].reward, found[2].error) == ("took longer than 1 s", None, "")


def test_forgotten_episode_is_closed_and_gives_no_more_replies(player, service):
    player.ask(move(1))
    replies(player, 1)
    player.ask(move(1, "4"))
    player.forget(1)
    assert service.eventually_heard("/close") == [{"session": "s3"}]
    assert player.replies() == []


def test_stop_closes_all_sessions(player, service):
    for episode in (1, 2):
        player.ask(move(episode))
    replies(player, 2)
    thread = player.thread
    player.stop()
    assert len(service.heard("/close")) == 2 and not thread.is_alive()


def test_episode_with_a_lost_session_fails(player):
    player.ask(move(1, "4"))
    assert replies(player, 1)[1].error == "its session is lost"


def test_full_openenv_server_is_asked_again_when_one_of_our_episodes_ends(settings):
    settings.ENVIRONMENT_HOSTS = ["127.0.0.1"]
    with openenv_server(room=1) as address:
        player = ServicePlayer(
            Environment(kind="openenv", name="guess", address=address, turn_s=20, parallel=2)
        )
        for episode in (1, 2):
            player.ask(move(episode))
        (first,) = replies(player, 1)
        assert first in (1, 2) and player.replies() == []
        player.ask(move(first, "3"))
        found = replies(player, 2)
        player.stop()
    assert (found[first].reward, found[first].done, found[3 - first].observation) == (
        1.0,
        True,
        "guess",
    )


# -- the explorer


@pytest.fixture
def called_run(new_run, tiny_policy, project, service):
    register_service(project, "called", "http", service.address, turn_limit=3, turn_s=20.0)
    return new_run(**SHAPE, environment={"name": "called"}, rewards=[])


def played(stage, run, groups: int = 2) -> list[Rollout]:
    """Wait until the rollouts of `groups` groups are written, and return them."""

    def look() -> bool:
        stage.explorer.serve()
        return Group.objects.filter(run=run, state=Group.State.SCORING).count() >= groups

    stage.eventually(look, 300)
    return list(Rollout.objects.filter(run=run, group__state=Group.State.SCORING).order_by("pk"))


def clean() -> list[str]:
    return [f"{check.name}: {found}" for check in CHECKS for found in check.find()]


@pytest.mark.django_db(transaction=True)
def test_rollouts_are_played_in_a_service_and_get_its_rewards(called_run, stage, service):
    for rollout in played(stage, called_run):
        episode = rollout.episodes.get()
        acted = list(episode.seen.filter(answered_at__isnull=False))
        word = rollout.rewards.get()
        assert (episode.state, word.source, word.scorer) == (
            Episode.State.DONE,
            "environment",
            "called",
        )
        assert word.value == sum(turn.reward for turn in acted) and all(
            turn.reward is not None for turn in acted
        )
        assert {turn.info.get("number") for turn in episode.seen.filter(number__gt=0)} == {
            turn.number + 1 for turn in acted
        }
    assert {body["action"] for body in service.heard("/step")} and clean() == []


@pytest.mark.django_db(transaction=True)
def test_two_explorers_together_respect_the_services_parallel_limit(called_run, stage, monkeypatch):
    monkeypatch.setattr(loop, "ROLLOUTS_IN_FLIGHT", 4)  # a group for each of them
    Environment.objects.update(parallel=2)
    another = loop.ExplorerLoop(
        Worker.objects.create(
            key="explorer@elsewhere", role=Worker.Role.EXPLORER, host="test", pid=2
        )
    )
    owners = set()
    played_at_once = []

    def look() -> bool:
        for explorer in (stage.explorer, another):
            explorer.serve()
            owners.update(
                Group.objects.exclude(lease_owner="").values_list("lease_owner", flat=True)
            )
            played_at_once.append(
                Episode.objects.filter(state__in=["environment", "policy"]).count()
            )
        return Group.objects.filter(run=called_run, state=Group.State.SCORING).count() == 2

    stage.eventually(look, 300)
    another.stop()
    assert owners == {"explorer@test", "explorer@elsewhere"} and max(played_at_once) == 2
    assert (
        set(Episode.objects.values_list("state", flat=True)) == {Episode.State.DONE}
        and clean() == []
    )


@pytest.mark.django_db(transaction=True)
def test_rollouts_are_played_on_the_server_of_the_openenv_package(
    new_run, tiny_policy, project, stage, settings
):
    settings.ENVIRONMENT_HOSTS = ["127.0.0.1"]
    with openenv_server(room=3) as address:
        register_service(project, "guess", "openenv", address, turn_limit=2, turn_s=20.0)
        rollouts = played(stage, new_run(**SHAPE, environment={"name": "guess"}, rewards=[]))
    assert {rollout.rewards.get().value for rollout in rollouts} <= {0.0, 1.0}
    assert {rollout.episodes.get().state for rollout in rollouts} == {Episode.State.DONE}
    assert {rollout.episodes.get().seen.get(number=1).info["n"] for rollout in rollouts} == {
        1
    } and clean() == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("breaks", "reason"),
    [
        ("crash", "POST /step: the response has the status 500"),
        ('{"observation": "a", "reward": NaN, "done": false}', "NaN is not a number"),
        (
            '{"observation": "a", "reward": 7, "done": true}',
            "reward: must be a number from 0 to 1, or null",
        ),
        ("hang", "took longer than 0.5 s"),
    ],
)
def test_broken_service_gives_no_reward_and_opens_its_circuit_breaker(
    called_run, stage, service, breaks, reason
):
    if breaks == "hang":
        Environment.objects.update(turn_s=0.5)
    service.breaks = breaks
    rollouts = played(stage, called_run)
    words = [rollout.rewards.get() for rollout in rollouts]
    assert {word.value for word in words} == {None}
    assert [word.reason for word in words if reason not in word.reason] == []
    environment = Environment.objects.get(name="called")
    assert environment.failures >= 5 and reason in environment.open_reason
    assert clean() == []


@pytest.mark.django_db(transaction=True)
def test_frozen_lake_is_played_by_its_gymnasium_name(new_run, tiny_policy, project, stage):
    pytest.importorskip(
        "gymnasium", reason="gymnasium is not installed: scripts/setup --with gymnasium"
    )
    register_service(
        project,
        "lake",
        "gymnasium",
        "FrozenLake-v1",
        turn_limit=2,
        turn_s=10.0,
        options={"is_slippery": False},
    )
    run = new_run(**SHAPE, environment={"name": "lake"}, rewards=[])
    rollouts = played(stage, run)
    for rollout in rollouts:
        first = rollout.episodes.get().seen.get(number=0)
        assert first.observation == "[S]FFF\nFHFH\nFFFH\nHFFG"
        assert rollout.rewards.get().value is not None or rollout.state == Rollout.State.FAILED
    assert clean() == []
