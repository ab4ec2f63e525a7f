"""The play of one session: successive episodes, whose moves are recorded like those of runs."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import structlog
from channels.db import DatabaseSyncToAsync

from apps.environments import closing, episode_opening, playing
from apps.environments.errors import CannotPlay
from apps.environments.library.process import START_S
from apps.environments.library.protocol import Step
from apps.environments.models import Environment, Episode, PlaySession
from apps.environments.openenv import wire
from apps.environments.openenv.pushed import PushedSession
from apps.environments.pull.errors import BadAddress, CallFailed, Full
from apps.environments.pull.processes import ProcessSession
from apps.environments.pull.sessions import SESSIONS, Session
from apps.rollouts.serving import NoRoom

log = structlog.get_logger(__name__)
Kind = Environment.Kind
IN_PROCESSES = (Kind.LIBRARY, Kind.GYMNASIUM)
PLAYERS: dict[str, Callable[[Environment], Session]] = {
    **SESSIONS,
    **dict.fromkeys(IN_PROCESSES, ProcessSession),
    Kind.PUSH: PushedSession,
}
CLOSE_S = 2.0
MAX_SEED = 2**63 - 1
ANOTHER = "its client started another"
TURN_LIMIT = "turn limit"
AN_AGENT = "An agent environment cannot be played: the agent itself acts. Connect it under /v1/."
A_RUN_ALONE = "Environments of the verifiers package are only for runs and are not served."
THREADS = ThreadPoolExecutor(4, thread_name_prefix="openenv")


def in_a_thread(call: Callable, *args: Any) -> Awaitable[Any]:
    """Run a call that uses the database in a thread."""
    return DatabaseSyncToAsync(call, thread_sensitive=False, executor=THREADS)(*args)


def why_not_served(environment: Environment) -> str:
    """Return why outside clients cannot act in the environment; "" if they can."""
    if environment.kind in PLAYERS:
        return ""
    return AN_AGENT if environment.kind == Kind.AGENT else A_RUN_ALONE


class Unplayable(Exception):
    """Raised for a move that is not possible; `errors` lists problems of the action.

    The session continues.
    """

    def __init__(self, message: str, errors: list[dict] | None = None) -> None:
        self.errors = errors
        super().__init__(message)


class Play:
    """The play of one session. One call at a time."""

    def __init__(self, environment: Environment, session: PlaySession) -> None:
        self.environment = environment
        self.session = session
        self.player: Session | None = None
        self.episode: Episode | None = None
        self.name: str | None = None
        self.steps = 0
        self.over = True
        self.since = 0.0  # when the episode began
        # How an episode is closed when its environment breaks.
        self.broke: Callable[[int, str], Episode] = closing.fail_episode

    @property
    def opened(self) -> Episode:
        """Return the current episode; a move is possible only in one."""
        assert self.episode is not None
        return self.episode

    async def reset(self, data: dict) -> dict:
        """Begin an episode and return the first observation.

        `data` holds seed, episode_id, and the environment's options. Raises Unplayable.
        """
        seed = _seed(data.get("seed"))
        self.name = _name(data.get("episode_id"))
        options = {
            name: value for name, value in data.items() if name not in ("seed", "episode_id")
        }
        await self._abandon_episode(ANOTHER)
        episode = await in_a_thread(_open_episode, self.session, self.environment, seed, options)
        self.episode = episode
        self.steps, self.over, self.since = 0, False, time.monotonic()
        # The client's own options may be the cause, and must not suspend the environment for runs.
        self.broke = closing.abandon if options else closing.fail_episode
        if self.player is None or self.environment.kind not in IN_PROCESSES:
            await self._close_player()
            self.player = PLAYERS[self.environment.kind](self.environment)
        limit = self.environment.turn_s + (START_S if self.environment.kind in IN_PROCESSES else 0)
        step = await self._ask_in_time(self.player.begin(episode.pk, seed, episode.options), limit)
        return await self._observed(Step(step.observation, None, step.done, step.info))

    async def step(self, action: dict) -> dict:
        """Apply this action and return the result. Raises Unplayable."""
        if self.episode is None or self.player is None or self.over:
            raise Unplayable(
                "The episode has ended: reset first."
                if self.episode
                else "There is no episode yet: reset first."
            )
        if time.monotonic() - self.since > self.environment.episode_s:
            await self._give_up(
                closing.abandon, f"the episode took longer than {self.environment.episode_s:g} s"
            )
        if wrong := wire.wrong_in(self.environment.action_schema, action):
            raise Unplayable("Invalid action", wrong)
        text = wire.text_of_action(self.environment.action_schema, action)
        await in_a_thread(
            playing.record_actions, [playing.Action(self.opened.pk, self.steps, text, None, 0)]
        )
        self.steps += 1
        return await self._observed(
            await self._ask_in_time(self.player.step(text), self.environment.turn_s)
        )

    def state(self) -> dict:
        limit = self.environment.turn_limit
        if self.episode is None:
            return wire.state(seed=None, turn_limit=limit, episode=None, done=False)
        name = str(self.episode.pk) if self.name is None else self.name
        return wire.state(
            name,
            self.steps,
            seed=self.episode.seed,
            turn_limit=limit,
            episode=self.episode.pk,
            done=self.over,
        )

    async def close(self, reason: str) -> None:
        """Release what is held; abandon an open episode."""
        await self._close_player()
        await self._abandon_episode(reason)

    # -- one move

    async def _ask_in_time(self, work: Awaitable[Step], limit_s: float) -> Step:
        """Return the environment's reply within the time limit.

        An environment that breaks fails its episode, and the breaker counts it unless the client
        chose the options.
        """
        try:
            async with asyncio.timeout(limit_s):
                return await work
        except Full as why:
            await self._give_up(closing.abandon, str(why))
        except (CallFailed, BadAddress) as why:
            await self._give_up(self.broke, str(why))
        except TimeoutError:
            await self._end_at_time_limit(limit_s)
        except Exception as error:
            # Any error ends only this episode.
            log.exception("external_episode_failed", episode=self.opened.pk)
            await self._give_up(self.broke, f"{type(error).__name__}: {error}")
        raise AssertionError("giving up raises")

    async def _end_at_time_limit(self, limit_s: float) -> None:
        is_taken = self.environment.kind != Kind.PUSH or await in_a_thread(
            _is_assigned, self.opened.pk
        )
        if is_taken:
            await self._give_up(self.broke, f"took longer than {limit_s:g} s")
        await self._give_up(closing.abandon, f"no worker took the episode within {limit_s:g} s")

    async def _give_up(self, how: Callable[[int, str], Episode], reason: str) -> None:
        """Close the episode, and raise Unplayable with the reason."""
        self.over = True
        await self._close_player()
        with suppress(CannotPlay):  # the episode ended meanwhile
            await in_a_thread(how, self.opened.pk, reason)
        raise Unplayable(reason)

    async def _observed(self, step: Step) -> dict:
        """Record the step and return it in OpenEnv's form."""
        if (
            self.environment.kind != Kind.PUSH
        ):  # an environment that calls us records its own observations
            try:
                await in_a_thread(_observe, self.opened.pk, self.steps, step)
            except CannotPlay as why:
                await self._give_up(self.broke, str(why))
        if not step.done and self.steps >= self.opened.turn_limit:
            await in_a_thread(_end_episode, self.opened.pk, TURN_LIMIT)
            self.over = True
            return wire.convert_step(step, done=True, truncated=TURN_LIMIT)
        self.over = step.done
        return wire.convert_step(step)

    async def _abandon_episode(self, reason: str) -> None:
        if self.episode is not None and not self.over:
            self.over = True
            with suppress(CannotPlay):
                await in_a_thread(closing.abandon, self.episode.pk, reason)

    async def _close_player(self) -> None:
        """Close the player.

        Errors are ignored, since a service ends abandoned episodes by its own limits.
        """
        player = self.player
        self.player = None
        if player is not None:
            with suppress(CallFailed, BadAddress, TimeoutError, OSError):
                async with asyncio.timeout(CLOSE_S):
                    await player.close()


# -- in a thread


def _open_episode(
    session: PlaySession, environment: Environment, seed: int, options: dict
) -> Episode:
    """Open an episode. Raises Unplayable while the breaker is open, or the service has no room."""
    if closing.rests(environment):
        environment.refresh_from_db(fields=["failures", "open_reason"])
        raise Unplayable(
            f"Its breaker is open after {environment.failures} failures in a row:"
            f" {environment.open_reason}"
        )
    try:
        return episode_opening.open_for(session, environment, seed, options)
    except NoRoom as why:
        raise Unplayable(str(why)) from None


def _observe(episode_id: int, number: int, step: Step) -> None:
    playing.observe(
        episode_id, number, step.observation, reward=step.reward, done=step.done, info=step.info
    )


def _end_episode(episode_id: int, reason: str) -> None:
    with suppress(CannotPlay):
        closing.end_episode(episode_id, reason)


def _is_assigned(episode_id: int) -> bool:
    return not Episode.objects.filter(pk=episode_id, state=Episode.State.WAITING).exists()


# -- reset


def _seed(value: object) -> int:
    if value is None:
        return random.randrange(2**31)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_SEED:
        raise Unplayable(
            "Invalid message",
            [
                {
                    "type": "seed",
                    "loc": ["seed"],
                    "msg": f"must be a whole number from 0 to {MAX_SEED}",
                }
            ],
        )
    return value


def _name(value: object) -> str | None:
    if value is not None and (not isinstance(value, str) or len(value) > 255):
        raise Unplayable(
            "Invalid message",
            [
                {
                    "type": "episode_id",
                    "loc": ["episode_id"],
                    "msg": "must be a text of at most 255 characters",
                }
            ],
        )
    return value
