"""Session of an environment that calls us: it plays over REST, and rows hold its replies."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from django.db import connection

from apps.environments.action_waiters import Key, LoopWaiters, TurnState
from apps.environments.library.protocol import Step
from apps.environments.models import Environment, Episode
from apps.environments.pull.errors import CallFailed

SEEN = """
    SELECT e.id, k.number, e.state, e.reason, e.turns > k.number, t.observation, b.reward,
        coalesce(t.done, false), t.info
    FROM unnest(%s::bigint[], %s::int[]) AS k(episode, number)
    JOIN environments_episode e ON e.id = k.episode
    LEFT JOIN environments_episodeturn t ON t.episode_id = e.id AND t.number = k.number
    LEFT JOIN environments_episodeturn b ON b.episode_id = e.id AND b.number = k.number - 1"""


@dataclass(frozen=True)
class PushedObservation:
    """Observation `number` of an episode, or the episode's end without that observation."""

    episode_id: int
    number: int
    state: str
    reason: str
    is_there: bool
    observation: str | None
    reward: float | None
    done: bool
    info: str | None

    @property
    def is_settled(self) -> bool:
        return self.is_there or self.state in Episode.CLOSED

    @property
    def step(self) -> Step:
        """Return the observation as a step.

        Raises CallFailed if the environment broke, or left.
        """
        if self.is_there:
            assert self.observation is not None and self.info is not None
            return Step(json.loads(self.observation), self.reward, self.done, json.loads(self.info))
        if self.state == Episode.State.DONE:
            return Step("", self.reward, True, {"ended": self.reason})
        raise CallFailed(f"the episode is {self.state}: {self.reason}")


class Observers(LoopWaiters[PushedObservation]):
    """Waiters for an environment's observations instead of the policy's actions."""

    of_loop = WeakKeyDictionary()

    @staticmethod
    def look(keys: Iterable[Key]) -> list[PushedObservation]:
        episodes, numbers = zip(*keys, strict=True)
        with connection.cursor() as cursor:
            cursor.execute(SEEN, [list(episodes), list(numbers)])
            return [PushedObservation(*row) for row in cursor.fetchall()]

    def take_actions(self, turns: Sequence[TurnState]) -> None:
        """Do nothing: an action is no observation."""


class PushedSession:
    """Session for one episode.

    It records nothing, because the environment does, and it has no time limit of its own.
    """

    def __init__(self, environment: Environment) -> None:
        self.environment = environment

    async def begin(self, episode: int, seed: int, options: dict) -> Step:
        self.episode = episode
        self.number = 0
        return await self._next_observation()

    async def step(self, text: str) -> Step:
        self.number += 1
        return await self._next_observation()

    async def close(self) -> None:
        """Do nothing: the environment notices the end at its next call."""

    async def _next_observation(self) -> Step:
        return (await Observers.here().settled((self.episode, self.number))).step
