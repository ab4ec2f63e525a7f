"""Plays environments behind addresses, many episodes at once, without ever making the explorer wait for them.

One thread with a loop of its own holds the sessions; it knows no database. A session that breaks fails its own episode alone: it
is not begun again, because nobody can tell what the service did with what it was told.
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
from workers.explorer.player import PATIENCE_IN_ALL_S, PATIENCE_S, LibraryPlayer, Move, Reply, VerifiersPlayer

CLOSE_S = 2.0  # that a service may take to hear that an episode is over
ROOM_LOOK_S = 0.5  # between two questions whether a full server has room again


class ServicePlayer:
    """Not thread-safe but for its own thread: one per seat."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.answers: queue.SimpleQueue[Reply] = queue.SimpleQueue()
        self.waiting: set[int] = set()  # episodes that were asked about and not answered
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread: threading.Thread | None = None
        self.is_shared = False

    # -- the explorer's side ----------------------------------------------------------------------------------------

    def ask(self, move: Move) -> None:
        if self.loop is None:
            self._start()
        self.waiting.add(move.episode)
        self.loop.call_soon_threadsafe(self.calls.ask, move)

    def forget(self, episode: int) -> None:
        """Nobody waits for this episode any more."""
        self.waiting.discard(episode)
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self.calls.forget, episode)

    def share(self, is_shared: bool) -> None:
        """Whether others of ours play there, too: a server that is full may be full of them."""
        self.is_shared = is_shared

    def replies(self) -> list[Reply]:
        """What has come; one that is nearly there is waited for."""
        found: list[Reply] = []
        ends = time.monotonic() + PATIENCE_IN_ALL_S
        while self.waiting and time.monotonic() < ends:
            try:
                reply = self.answers.get(timeout=PATIENCE_S)
            except queue.Empty:
                break
            if reply.episode in self.waiting:
                self.waiting.discard(reply.episode)
                found.append(reply)
        return found

    def stop(self) -> None:
        """Close all sessions and end the thread."""
        if self.loop is None:
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
        self.thread = threading.Thread(target=self._serve, args=(self.loop,), name="services", daemon=True)
        self.thread.start()

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()
        loop.close()


class Calls:
    """The sessions of one seat. Everything here runs on the thread of the loop."""

    def __init__(self, environment: Environment, answers: "queue.SimpleQueue[Reply]", is_shared: Callable[[], bool]) -> None:
        self.environment, self.answers, self.is_shared = environment, answers, is_shared
        self.sessions: dict[int, Session] = {}
        self.begun: set[int] = set()  # of the sessions: those that the service has let in
        self.under_way: dict[int, asyncio.Task] = {}
        self.closing: set[asyncio.Task] = set()

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
        number, limit = len(move.actions), self.environment.turn_s
        try:
            step = await self._step(move)
            reply = Reply(move.episode, number, step.observation, step.reward, step.done, step.info)
        except (CallFailed, BadAddress) as why:
            reply = Reply(move.episode, number, error=str(why)[:300])
        except TimeoutError:
            reply = Reply(move.episode, number, error=f"took longer than {limit:g} s")
        except Exception as error:  # the loop around one unit of work: whatever went wrong belongs to this episode
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
        """Waits for the server's room. Full for all of its time, with none of ours in it, has failed."""
        alone_since = time.monotonic()
        while True:
            session = SESSIONS[self.environment.kind](self.environment)
            self.sessions[move.episode] = session  # from here on it is given back, whatever comes
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
        """Its session is closed beside what goes on; who waits for its place need not wait for that."""
        if session := self.sessions.pop(episode, None):
            self.begun.discard(episode)
            task = asyncio.ensure_future(self._closed(session))
            self.closing.add(task)
            task.add_done_callback(self.closing.discard)

    async def _closed(self, session: Session) -> None:
        """The episode is over either way: a service that does not hear it has its own limits."""
        with suppress(CallFailed, BadAddress, TimeoutError, OSError):
            async with asyncio.timeout(CLOSE_S):
                await session.close()


def player_of(environment: Environment) -> LibraryPlayer | ServicePlayer | None:
    """Who makes this environment's moves; None when it is played from elsewhere."""
    if environment.kind == Environment.Kind.LIBRARY:
        return LibraryPlayer(environment.turn_s)
    if environment.kind == Environment.Kind.GYMNASIUM:
        return LibraryPlayer(environment.turn_s, module=gymnasium.MODULE)
    if environment.kind == Environment.Kind.VERIFIERS:
        return VerifiersPlayer(environment.turn_s)
    return ServicePlayer(environment) if environment.kind in SESSIONS else None
