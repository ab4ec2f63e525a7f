"""Wait for the policy's actions without a thread for each client.

Postgres holds the state of a turn; Redis announces actions and notifies of other changes. An
announced action is committed and answers its client directly. For the rest, one database query
serves all clients that wait in this process: at once after a notification, else at intervals, which
are short while Redis is away.
"""

import asyncio
import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import astuple, dataclass
from functools import cache, partial
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar
from weakref import WeakKeyDictionary

import redis.asyncio
import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from apps.environments.models import Episode
from apps.streaming import worker_notifications
from apps.streaming.chunks import DEAD_REDIS

log = structlog.get_logger(__name__)
CHANNEL = "episodes"
LOOK_S = 0.5
LOOK_WITHOUT_BELL_S = 0.02
PATIENCE_S = 60.0  # seconds between two queries of a wait without end
BACK_OFF_S = 0.5  # seconds of pause after a database or Redis error
RINGS_KEPT_S = 5.0  # seconds for which a process knows that an episode was announced
MAX_ANNOUNCED_LENGTH = 64 * 1024  # characters of an action; a longer one is read from the database
Key = tuple[int, int]  # episode, number of the turn


@dataclass(frozen=True)
class TurnState:
    """The state of turn `number` of an episode; `state` and `reason` are the episode's."""

    episode_id: int
    number: int
    state: str
    reason: str
    action: str | None
    tokens: int

    @property
    def is_settled(self) -> bool:
        """Tell whether waiting is over: the policy has acted, or the episode has ended."""
        return self.action is not None or self.state in Episode.CLOSED


class AwaitedState(Protocol):
    """State of turn `number` of an episode, as far as those who wait for it must know it."""

    @property
    def episode_id(self) -> int: ...

    @property
    def number(self) -> int: ...

    @property
    def is_settled(self) -> bool: ...


State = TypeVar("State", bound=AwaitedState)


async def await_action(
    episode_id: int, number: int, timeout_s: float, since: float | None = None
) -> TurnState:
    """Wait until the policy has acted on this turn, its episode has ended, or the time is over.

    `since`: a monotonic time at which neither had happened, if one is known. Returns the state of
    the turn then. Raises LookupError for an unknown episode, OperationalError when the database is
    away at the end.
    """
    return await Waiters.here().action_of((episode_id, number), timeout_s, since)


async def wait_until_settled(episode_id: int, number: int, since: float | None = None) -> TurnState:
    """Wait in the same way without a timeout, also through database outages."""
    while True:
        with suppress(OperationalError, InterfaceError):
            turn_state = await await_action(episode_id, number, PATIENCE_S, since)
            if turn_state.is_settled:
                return turn_state


def wait_for_action(episode_id: int, number: int, timeout_s: float) -> TurnState:
    """Do the same in a thread, which sleeps meanwhile."""
    return asyncio.run_coroutine_threadsafe(
        await_action(episode_id, number, timeout_s), _start_event_loop()
    ).result()


def notify_episodes(episode_ids: Iterable[int]) -> None:
    """Notify those who wait for these episodes, once the transaction is committed."""
    if ids := list(episode_ids):
        transaction.on_commit(partial(_publish, ids))


def announce_actions(turns: Iterable[TurnState]) -> None:
    """Announce the policy's actions once the transaction is committed."""
    rows = [
        (
            turn.episode_id
            if turn.action is None or len(turn.action) > MAX_ANNOUNCED_LENGTH
            else [*astuple(turn)]
        )
        for turn in turns
    ]
    if rows:
        transaction.on_commit(partial(_publish, rows))


def _publish(rows: Sequence[int | list]) -> None:
    """Publish ids of episodes that changed, and the rows of turns that are settled."""
    try:
        worker_notifications.connection().publish(CHANNEL, json.dumps(rows))
    except DEAD_REDIS as error:
        log.warning("episode_notification_failed", error=str(error))


# Rows of (episode, turn); an episode may occur with two turns.
STANDING = """
    SELECT e.id, k.number, e.state, e.reason, CASE WHEN t.answered_at IS NULL
        THEN NULL ELSE t.action END, coalesce(t.tokens, 0)
    FROM unnest(%s::bigint[], %s::int[]) AS k(episode, number)
    JOIN environments_episode e ON e.id = k.episode
    LEFT JOIN environments_episodeturn t ON t.episode_id = e.id AND t.number = k.number"""


def standings(keys: Iterable[Key]) -> list[TurnState]:
    """Return the states of these turns with one statement, without unknown episodes."""
    episodes, numbers = zip(*keys, strict=True)
    with connection.cursor() as cursor:
        cursor.execute(STANDING, [list(episodes), list(numbers)])
        return [TurnState(*row) for row in cursor.fetchall()]


class LoopWaiters(ABC, Generic[State]):
    """All clients that wait for one kind of state in one event loop; `here()` returns them.

    Each subclass has its own `of_loop`.
    """

    of_loop: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, "LoopWaiters"]]

    def __init__(self) -> None:
        self.waiting: dict[Key, set[asyncio.Future[State]]] = {}
        self.due: set[Key] = set()
        self.rung = asyncio.Event()
        self.hears = False  # whether Redis delivers notifications
        self.heard_from = 0.0  # since when it has delivered all of them
        self.rung_at: dict[int, float] = {}  # when an episode was last announced
        self.looker: asyncio.Task | None = None
        self.listener: asyncio.Task | None = None
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="episodes")

    @classmethod
    def here(cls) -> Self:
        """Return the waiters of the running event loop."""
        loop = asyncio.get_running_loop()
        waiters = cls.of_loop.get(loop)
        if isinstance(waiters, cls):
            return waiters
        new_waiters = cls()
        cls.of_loop[loop] = new_waiters
        return new_waiters

    @staticmethod
    @abstractmethod
    def look(keys: Iterable[Key]) -> list[State]:
        """Return the states of these turns from the database, without unknown episodes."""

    @abstractmethod
    def take_actions(self, turns: Sequence[TurnState]) -> None:
        """Tell those who wait for these actions."""

    async def action_of(self, key: Key, timeout_s: float, since: float | None = None) -> State:
        try:
            async with asyncio.timeout(timeout_s):
                return await self.settled(key, since)
        except TimeoutError:
            states = await self._standings([key])
            if not states:
                raise LookupError(f"there is no episode {key[0]}") from None
            return states[0]

    async def settled(self, key: Key, since: float | None = None) -> State:
        """Wait until the turn is settled, and return its state. `since` as in `await_action`."""
        future: asyncio.Future[State] = asyncio.get_running_loop().create_future()
        self.waiting.setdefault(key, set()).add(future)
        if not self._was_not_announced(key[0], since):
            self._request_query([key])  # it may have happened before
        self.listener = _running(self.listener, self._listen)
        self.looker = _running(self.looker, self._poll_turns)
        try:
            return await future
        finally:
            self._forget(key, future)

    def _was_not_announced(self, episode_id: int, since: float | None) -> bool:
        """Tell whether the episode was certainly not announced from `since` until now.

        A message that has arrived and is not read yet finds the waiter.
        """
        if since is None or not self.hears or self.heard_from > since:
            return False
        if since < time.monotonic() - RINGS_KEPT_S:
            return False
        return self.rung_at.get(episode_id, 0.0) < since

    def _forget(self, key: Key, future: asyncio.Future[State]) -> None:
        if futures := self.waiting.get(key):
            futures.discard(future)
            if not futures:
                del self.waiting[key]

    def _request_query(self, keys: Iterable[Key]) -> None:
        self.due.update(keys)
        self.rung.set()

    async def _standings(self, keys: Iterable[Key]) -> list[State]:
        return await asyncio.get_running_loop().run_in_executor(
            self.thread, self._query_states, list(keys)
        )

    def _query_states(self, keys: list[Key]) -> list[State]:
        """Query the database in a thread that keeps its connection until the connection breaks."""
        try:
            return self.look(keys)
        except (OperationalError, InterfaceError):
            connection.close()
            raise

    async def _poll_turns(self) -> None:
        """Query turns that may have changed, as long as clients wait."""
        while self.waiting:
            keys = self.due & self.waiting.keys()
            self.due.clear()
            self.rung.clear()
            try:
                if keys:
                    self._notify_waiters(await self._standings(keys))
            except (OperationalError, InterfaceError) as error:
                log.warning("episode_poll_failed", error=str(error).strip())
                await asyncio.sleep(BACK_OFF_S)
            try:
                async with asyncio.timeout(LOOK_S if self.hears else LOOK_WITHOUT_BELL_S):
                    await self.rung.wait()
            except TimeoutError:
                self.due.update(self.waiting)

    def _notify_waiters(self, states: Iterable[State]) -> None:
        for state in states:
            if state.is_settled:
                for future in self.waiting.get((state.episode_id, state.number), ()):
                    if not future.done():
                        future.set_result(state)

    async def _listen(self) -> None:
        """Listen for notifications as long as the loop runs.

        A subscription for each turn would cost more than the turn.
        """
        no_retry = Retry(NoBackoff(), 0)
        client = redis.asyncio.Redis.from_url(
            settings.REDIS_URL, socket_timeout=None, socket_connect_timeout=2, retry=no_retry
        )
        async with client:
            while True:
                with suppress(*DEAD_REDIS):
                    await self._read_wakeups(client)
                self.hears = False
                await asyncio.sleep(BACK_OFF_S)

    async def _read_wakeups(self, client: redis.asyncio.Redis) -> None:
        async with client.pubsub() as wakeups:
            await wakeups.subscribe(CHANNEL)
            async for message in wakeups.listen():
                if message["type"] == "subscribe":
                    self.hears = True
                    self.heard_from = time.monotonic()
                    self._request_query(self.waiting)
                elif message["type"] == "message":
                    self._take(json.loads(message["data"]))

    def _take(self, rows: Sequence[int | list]) -> None:
        """Note which episodes are rung, tell announced actions, and look for the other changes."""
        ids = {row for row in rows if isinstance(row, int)}
        turns = [TurnState(*row) for row in rows if isinstance(row, list)]
        self._note(ids | {turn.episode_id for turn in turns})
        self.take_actions(turns)
        if ids:
            self._request_query([key for key in self.waiting if key[0] in ids])

    def _note(self, episode_ids: Iterable[int]) -> None:
        now = time.monotonic()
        for episode_id in episode_ids:
            self.rung_at.pop(episode_id, None)  # the dictionary stays in the order of time
            self.rung_at[episode_id] = now
        for episode_id in list(self.rung_at):
            if self.rung_at[episode_id] > now - 2 * RINGS_KEPT_S:
                break
            del self.rung_at[episode_id]


class Waiters(LoopWaiters[TurnState]):
    """Waiters for the policy's actions."""

    of_loop = WeakKeyDictionary()
    look = staticmethod(standings)

    def take_actions(self, turns: Sequence[TurnState]) -> None:
        self._notify_waiters(turns)


def _running(
    task: asyncio.Task[None] | None, work: Callable[[], Coroutine[Any, Any, None]]
) -> asyncio.Task[None]:
    return asyncio.create_task(work()) if task is None or task.done() else task


@cache
def _start_event_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop of this process, for threads without one."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="episodes-loop", daemon=True).start()
    return loop
