"""The main loop of an environment class: take an episode, reset, step until it ends, repeat."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, ClassVar, Protocol

from rftweb_client.api import POLL_S, Api
from rftweb_client.documents import Episode, Observation, Settings, Task
from rftweb_client.problems import Gone, NotNow, Problem, Unreachable

MAX_REASON_LENGTH = 300


@dataclass(frozen=True)
class Step:
    """The result of an action: observation, reward (None: not known yet), and whether it ended."""

    observation: Observation
    reward: float | None = None
    done: bool = False
    info: dict[str, Any] = field(default_factory=dict)


class Plays(Protocol):
    """An environment class; one instance plays one episode.

    With the asynchronous client both methods may be coroutines.
    """

    name: ClassVar[str]
    settings: ClassVar[Settings]

    def reset(self, seed: int, task: Task) -> Observation | Awaitable[Observation]:
        """Begin an episode and return the first observation.

        The same seed must begin alike: the attempts at a task are compared with each other.
        """

    def step(self, action: str) -> Step | Awaitable[Step]:
        """Apply the policy's action; answer invalid ones with an observation, not an exception."""


def never() -> bool:
    return False


async def play(
    api: Api,
    environment: type[Plays],
    *,
    project: str | None = None,
    run: int | None = None,
    until: Callable[[], bool] = never,
) -> int:
    """Register this environment and play episodes until `until()`; return how many were played.

    `until` is called between episodes and while none is waiting. An exception of `reset` or `step`
    fails the episode and is raised here.
    """
    await api.register(environment.name, project, **environment.settings)
    played = 0
    while not until():
        try:
            episode = await api.take(environment.name, run=run, project=project, at_once=True)
        except NotNow as why:
            await _pause(api, POLL_S if why.retry_after_s is None else why.retry_after_s, until)
        else:
            await _play_one(api, environment(), episode)
            played += 1
    return played


async def _pause(api: Api, seconds: float, until: Callable[[], bool]) -> None:
    """Pause, but stop as soon as `until()` is true."""
    while seconds > 0 and not until():
        await api.wire.pause(min(seconds, POLL_S))
        seconds -= POLL_S


async def _play_one(api: Api, game: Plays, episode: Episode) -> None:
    """Play until the episode ends for any reason; an exception of the environment fails it."""
    try:
        await _take_turns(api, game, episode)
    except Gone:  # the episode took too long, or its run has ended
        return
    except Unreachable:
        raise
    except Exception as broken:
        with suppress(Problem):
            await api.result(
                episode.id,
                "failed",
                reason=f"{type(broken).__name__}: {broken}"[:MAX_REASON_LENGTH],
            )
        raise


async def _take_turns(api: Api, game: Plays, episode: Episode) -> None:
    step = Step(await api.wire.call(partial(game.reset, episode.seed, episode.task)))
    for number in count():
        body = {"reward": step.reward, "done": step.done, "info": step.info}
        turn = await api.turn(episode.id, number, step.observation, **body)
        if turn.action is None:
            return
        step = await api.wire.call(partial(game.step, turn.action))
