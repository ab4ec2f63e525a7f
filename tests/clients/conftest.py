"""A web process to call; the test plays the policy's side of the episodes."""

import asyncio
from collections.abc import Callable

import pytest

from apps.accounts.models import Token
from apps.environments.episode_opening import open_episodes
from apps.environments.models import Environment, Episode, EpisodeTurn
from apps.environments.playing import Action, record_actions
from apps.rollouts.models import Group, Rollout
from rftweb_client import AsyncClient, Client
from tests.web_process import served, web_of_file  # noqa: F401  (fixtures)


@pytest.fixture(params=["at once", "awaited"])
def call(request) -> Callable[..., object]:
    """Call the method of this name, of the blocking or the async client."""

    def at_once(
        address: str,
        name: str,
        *args: object,
        token: str = "secret",
        patience_s: float = 20.0,
        **said: object,
    ) -> object:
        with Client(address, token, patience_s=patience_s) as client:
            return getattr(client, name)(*args, **said)

    async def awaited(
        address: str,
        name: str,
        *args: object,
        token: str = "secret",
        patience_s: float = 20.0,
        **said: object,
    ):
        async with AsyncClient(address, token, patience_s=patience_s) as client:
            return await getattr(client, name)(*args, **said)

    return (
        at_once
        if request.param == "at once"
        else lambda *args, **said: asyncio.run(awaited(*args, **said))
    )


@pytest.fixture
def token(alice) -> str:
    return Token.issue(alice, "client", ["env:write:*"])[1]


@pytest.fixture
def open_group(new_run) -> Callable[[str], list[int]]:
    """Start a run in the environment of this name and open the two episodes of a group, as the
    explorer does. Return their ids.
    """

    def open_in(name: str) -> list[int]:
        environment = Environment.objects.get(name=name)
        run = new_run(environment={"name": name}, rewards=[])
        groups = Group.open(run, "explorer@test", 60, 1, run.published_version)
        rollouts = list(Rollout.objects.filter(group__in=groups).order_by("sample_index"))
        return [
            episode.pk
            for episode in open_episodes(
                environment, run.settings.environment, groups, rollouts
            ).values()
        ]

    return open_in


@pytest.fixture
def act_until_done(eventually) -> Callable[[list[int], Callable[[list[str]], str]], None]:
    """Act as the policy of these episodes until they end: `says` gets all observations of the
    environment.
    """

    def heard(episode: int) -> list[str]:
        return list(
            EpisodeTurn.objects.filter(episode=episode).values_list("observation", flat=True)
        )

    def play(ids: list[int], says: Callable[[list[str]], str]) -> None:
        def all_over() -> bool:
            waiting = EpisodeTurn.objects.filter(
                episode__in=ids, episode__state=Episode.State.POLICY, answered_at=None
            )
            record_actions(
                [
                    Action(
                        turn.episode_id, turn.number, says(heard(turn.episode_id)), turn.number, 1
                    )
                    for turn in waiting
                ]
            )
            return not Episode.objects.open().filter(pk__in=ids).exists()

        eventually(all_over, 60)

    return play
