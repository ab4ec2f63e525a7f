"""The loop of an environment that is a class: take an episode, reset, step until it is over, take the next."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, ClassVar, Protocol

from rftweb_client.api import POLL_S, Api
from rftweb_client.documents import Episode, Observation, Settings, Task
from rftweb_client.problems import Gone, NotNow, Problem, Unreachable

LONGEST_REASON = 300


@dataclass(frozen=True)
class Step:
    """What follows an action: what the policy sees, what the action earned (None: not known, or not yet), if it is over."""

    observation: Observation
    reward: float | None = None
    done: bool = False
    info: dict[str, Any] = field(default_factory=dict)


class Plays(Protocol):
    """One instance plays one episode. With the asynchronous client both may be coroutines."""

    name: ClassVar[str]
    settings: ClassVar[Settings]

    def reset(self, seed: int, task: Task) -> Observation | Awaitable[Observation]:
        """Begin. The same seed must begin alike: the attempts at a task are compared with each other."""

    def step(self, action: str) -> Step | Awaitable[Step]:
        """What the policy's words lead to. Words that mean nothing are answered, not raised at."""


def never() -> bool:
    return False


async def play(
    api: Api, environment: type[Plays], *, project: str | None = None, run: int | None = None, until: Callable[[], bool] = never
) -> int:
    """Register this environment and play one episode after the other until `until()`, asked between them and while none waits.

    Returns how many were played. What `reset` or `step` raises fails the episode and is raised here.
    """
    await api.register(environment.name, project, **environment.settings)
    played = 0
    while not until():
        try:
            episode = await api.take(environment.name, run=run, project=project, at_once=True)
        except NotNow as why:
            await _rest(api, POLL_S if why.retry_after_s is None else why.retry_after_s, until)
        else:
            await _play_one(api, environment(), episode)
            played += 1
    return played


async def _rest(api: Api, seconds: float, until: Callable[[], bool]) -> None:
    """A pause that ends when it is time to stop."""
    while seconds > 0 and not until():
        await api.wire.pause(min(seconds, POLL_S))
        seconds -= POLL_S


async def _play_one(api: Api, game: Plays, episode: Episode) -> None:
    """Returns when the episode is over, whoever ended it; when the environment breaks, it has failed."""
    try:
        await _take_turns(api, game, episode)
    except Gone:  # it took too long, or its run has ended
        return
    except Unreachable:
        raise
    except Exception as broken:
        with suppress(Problem):
            await api.result(episode.id, "failed", reason=f"{type(broken).__name__}: {broken}"[:LONGEST_REASON])
        raise


async def _take_turns(api: Api, game: Plays, episode: Episode) -> None:
    step = Step(await api.wire.call(partial(game.reset, episode.seed, episode.task)))
    for number in count():
        said = {"reward": step.reward, "done": step.done, "info": step.info}
        turn = await api.turn(episode.id, number, step.observation, **said)
        if turn.action is None:
            return
        step = await api.wire.call(partial(game.step, turn.action))
