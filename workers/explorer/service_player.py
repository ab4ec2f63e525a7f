"""A player of environments behind addresses: many episodes at once, off the explorer's thread.

One thread with its own event loop holds the sessions; it never uses the database. A session that
breaks fails its own episode alone: it is not restarted, because nobody can tell what the service
did with the actions that it received.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from apps.environments.library.protocol import Step
from apps.environments.models import Environment
from apps.environments.pull import gymnasium
from apps.environments.pull.errors import BadAddress, CallFailed, Full
from apps.environments.pull.sessions import SESSIONS, Session
from workers.explorer.local_player import (
    PATIENCE_IN_ALL_S,
    PATIENCE_S,
    LibraryPlayer,
    Move,
    Reply,
    VerifiersPlayer,
)

CLOSE_S = 2.0  # seconds that a service may take to close an episode
ROOM_LOOK_S = 0.5  # seconds between two retries at a full server


class ServicePlayer:
    """A player of a remote environment, one per run session; not thread-safe."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.answers: queue.SimpleQueue[Reply] = queue.SimpleQueue()
        self.waiting: set[int] = set()  # episodes with a pending request
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread: threading.Thread | None = None
        self.is_shared = False

    # -- the explorer's side

    def ask(self, move: Move) -> None:
        if self.loop is None:
            self._start()
        assert self.loop is not None
        self.waiting.add(move.episode)
        self.loop.call_soon_threadsafe(self.calls.ask, move)

    def forget(self, episode: int) -> None:
        """Drop an episode that nobody waits for any more."""
        self.waiting.discard(episode)
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self.calls.forget, episode)

    def share(self, is_shared: bool) -> None:
        """Set whether other processes of ours play there too: they may be why a server is full."""
        self.is_shared = is_shared

    def replies(self) -> list[Reply]:
        """Return the replies that have arrived, after a short wait for further ones."""
        arrived: list[Reply] = []
        ends = time.monotonic() + PATIENCE_IN_ALL_S
        while self.waiting and time.monotonic() < ends:
            try:
                reply = self.answers.get(timeout=PATIENCE_S)
            except queue.Empty:
                break
            if reply.episode in self.waiting:
                self.waiting.discard(reply.episode)
                arrived.append(reply)
        return arrived

    def stop(self) -> None:
        """Close all sessions and end the thread."""
        if self.loop is None or self.thread is None:
            return
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self.calls.stop(), self.loop).result(CLOSE_S + 1)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(CLOSE_S)
        self.loop = None
        self.waiting.clear()

    def _start(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.calls = Calls(self.environment, self.answers, lambda: self.is_shared)
        self.thread = threading.Thread(
            target=self._serve, args=(self.loop,), name="services", daemon=True
        )
        self.thread.start()

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()
        loop.close()


class Calls:
    """The sessions of one player. All methods run on the thread of the event loop."""

    def __init__(
        self,
        environment: Environment,
        answers: "queue.SimpleQueue[Reply]",
        is_shared: Callable[[], bool],
    ) -> None:
        self.environment = environment
        self.answers = answers
        self.is_shared = is_shared
        self.sessions: dict[int, Session] = {}
        self.begun: set[int] = set()  # sessions that the service has admitted
        self.under_way: dict[int, asyncio.Task[None]] = {}
        self.closing: set[asyncio.Task[None]] = set()

    def ask(self, move: Move) -> None:
        self.under_way[move.episode] = asyncio.ensure_future(self._answer(move))

    def forget(self, episode: int) -> None:
        if task := self.under_way.pop(episode, None):
            task.cancel()
        self._give_back(episode)

    async def stop(self) -> None:
        for episode in {*self.under_way, *self.sessions}:
            self.forget(episode)
        await asyncio.gather(*self.closing)

    async def _answer(self, move: Move) -> None:
        number = len(move.actions)
        limit = self.environment.turn_s
        try:
            step = await self._step(move)
            reply = Reply(move.episode, number, step.observation, step.reward, step.done, step.info)
        except (CallFailed, BadAddress) as why:
            reply = Reply(move.episode, number, error=str(why)[:300])
        except TimeoutError:
            reply = Reply(move.episode, number, error=f"took longer than {limit:g} s")
        except Exception as error:
            # Any error belongs to this episode alone.
            reply = Reply(move.episode, number, error=f"{type(error).__name__}: {error}"[:300])
        if reply.error or reply.done:
            self._give_back(move.episode)
        self.under_way.pop(move.episode, None)
        self.answers.put(reply)

    async def _step(self, move: Move) -> Step:
        if not move.actions:
            return await self._begin(move)
        session = self.sessions.get(move.episode)
        if session is None:
            raise CallFailed("its session is lost")
        async with asyncio.timeout(self.environment.turn_s):
            return await session.step(move.actions[-1])

    async def _begin(self, move: Move) -> Step:
        """Begin an episode once the server has room.

        A server that stays full for the whole time limit, with no session of ours in it, fails the
        episode.
        """
        alone_since = time.monotonic()
        while True:
            session = SESSIONS[self.environment.kind](self.environment)
            self.sessions[move.episode] = session  # from here on it is closed in any case
            try:
                async with asyncio.timeout(self.environment.turn_s):
                    first = await session.begin(move.episode, move.seed, move.options)
                self.begun.add(move.episode)
                return first
            except Full:
                await self._closed(session)
                if self.begun or self.is_shared():
                    alone_since = time.monotonic()
                if time.monotonic() - alone_since > self.environment.turn_s:
                    raise
            await asyncio.sleep(ROOM_LOOK_S)

    def _give_back(self, episode: int) -> None:
        """Close the episode's session in the background, so that its place is free at once."""
        if session := self.sessions.pop(episode, None):
            self.begun.discard(episode)
            task = asyncio.ensure_future(self._closed(session))
            self.closing.add(task)
            task.add_done_callback(self.closing.discard)

    async def _closed(self, session: Session) -> None:
        """Close a session.

        Errors are ignored, since a service ends abandoned episodes by its own limits.
        """
        with suppress(CallFailed, BadAddress, TimeoutError, OSError):
            async with asyncio.timeout(CLOSE_S):
                await session.close()


def find_player(environment: Environment) -> LibraryPlayer | ServicePlayer | None:
    """Return the player that makes this environment's moves; None when others play it."""
    if environment.kind == Environment.Kind.LIBRARY:
        return LibraryPlayer(environment.turn_s)
    if environment.kind == Environment.Kind.GYMNASIUM:
        return LibraryPlayer(environment.turn_s, module=gymnasium.MODULE)
    if environment.kind == Environment.Kind.VERIFIERS:
        return VerifiersPlayer(environment.turn_s)
    return ServicePlayer(environment) if environment.kind in SESSIONS else None
