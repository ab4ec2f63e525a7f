"""One reader of Redis streams per web process, which fans chunks out to all its sockets.

One blocking XREAD covers every stream anybody here watches. A watcher that must not miss anything first
calls `watch`, then reads the past with `past`, then drops what comes with an id it has already seen.
A dead Redis is waited for; what it lost is told to the watchers.
"""

import asyncio
import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from weakref import WeakKeyDictionary

import redis.asyncio
import structlog
from django.conf import settings
from redis.asyncio.client import Pipeline
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from apps.streaming.chunks import DEAD_REDIS, rollout_key
from apps.streaming.lags import chunk_heard
from apps.streaming.watcher import Watcher

log = structlog.get_logger(__name__)
EntryId = tuple[int, int]
START: EntryId = (0, 0)
BLOCK_MS = 5_000
ANSWER_S = 10.0  # of Redis, with the time in the queue for a connection
ENTRIES_AT_ONCE = 200
LONGEST_BACK_OFF_S = 5.0
MOST_CONNECTIONS = 8
# What a person who judges blind hears of a chunk: not the weight version, not how probable each token was.
BLIND = frozenset({"id", "r", "t", "topic", "group", "question", "turn", "o", "keep", "n", "x", "by", "e", "s", "stop"})


@dataclass(frozen=True)
class Entry:
    """One chunk of the stream `key`; `text` is its JSON with its id, made once for all watchers."""

    key: str
    id: EntryId
    chunk: dict
    text: str

    @cached_property
    def blind_text(self) -> str:
        """The same for those who judge blind, made once for all of them."""
        told = {"id": written(self.id)} | {name: value for name, value in self.chunk.items() if name in BLIND}
        return json.dumps(told, ensure_ascii=True, separators=(",", ":"))


@dataclass(frozen=True)
class Lost:
    """Redis came back without what it had of this stream; what follows may lack a part."""

    key: str


@dataclass(frozen=True)
class Reachable:
    """Whether the hub can read just now."""

    yes: bool


@dataclass
class Stream:
    """A watched stream: what was read of it last, and for whom it is read."""

    last: EntryId
    watchers: set[Watcher] = field(default_factory=set)


class Hub:
    """Belongs to one event loop; `Hub.here()` finds it."""

    of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, "Hub"] = WeakKeyDictionary()

    def __init__(self, url: str) -> None:
        once = Retry(NoBackoff(), 0)
        # Few connections, for which many sockets queue: hundreds at once would time out, and dead Redis is a longer wait.
        # No socket timeout, see `_answers`.
        pool = redis.asyncio.BlockingConnectionPool.from_url(
            url, max_connections=MOST_CONNECTIONS, timeout=ANSWER_S, socket_timeout=None, socket_connect_timeout=2, retry=once
        )
        self.redis = redis.asyncio.Redis.from_pool(pool)
        # The blocking reader must have no socket timeout: redis-py's default of 5 s is shorter than its wait.
        self.waiting = redis.asyncio.Redis.from_url(url, socket_timeout=None, socket_connect_timeout=2, retry=once)
        self.streams: dict[str, Stream] = {}
        self.wake_key, self.wake_last = f"wake:{uuid.uuid4().hex}", START
        self.reader: asyncio.Task | None = None

    @classmethod
    def here(cls) -> "Hub":
        """The hub of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in cls.of_loop:
            cls.of_loop[loop] = cls(settings.REDIS_URL)
        return cls.of_loop[loop]

    # -- for watchers -----------------------------------------------------------------------------------------------

    async def watch(self, watcher: Watcher, keys: Iterable[str]) -> None:
        """Put every entry written from now on into the watcher. Raises DEAD_REDIS; nothing is watched then."""
        keys = list(keys)
        newest: dict[str, EntryId] = {}
        while fresh := [key for key in keys if key not in self.streams and key not in newest]:
            newest |= await self._newest(fresh)
        for key in keys:
            self.streams.setdefault(key, Stream(newest.get(key, START))).watchers.add(watcher)
        if self.reader is None or self.reader.done():
            self.reader = asyncio.create_task(self._read_for_ever())
        elif newest:
            await self._wake()

    def puts(self, watcher: Watcher, key: str) -> bool:
        """Whether this stream's entries go into the watcher."""
        return key in self.streams and watcher in self.streams[key].watchers

    def forget(self, watcher: Watcher, keys: Iterable[str] | None = None) -> None:
        """Put nothing more of these streams (of any, when none is named) into the watcher."""
        for key in list(self.streams if keys is None else keys):
            if stream := self.streams.get(key):
                stream.watchers.discard(watcher)
                if not stream.watchers:
                    del self.streams[key]
        if not self.streams and self.reader:
            self.reader.cancel()
            self.reader = None

    async def past(self, spans: dict[str, EntryId], count: int) -> dict[str, list[Entry]]:
        """Up to `count` entries of each stream, from the one with this id on (inclusive), oldest first."""
        pipe = self.redis.pipeline(transaction=False)
        for key, first in spans.items():
            pipe.xrange(key, min=written(first), count=count)
        return {key: [entry_of(key, *pair) for pair in pairs] for key, pairs in zip(spans, await _answers(pipe), strict=True)}

    # -- the reader -------------------------------------------------------------------------------------------------

    async def _read_for_ever(self) -> None:
        back_off = 0.1
        while True:
            try:
                await self._look_for_losses()
                self._tell(Reachable(True))
                back_off = 0.1
                while True:
                    await self._read()
            except DEAD_REDIS:
                self._tell(Reachable(False))
            except Exception:
                log.exception("hub_failed")
                self._tell(Reachable(False))
            await asyncio.sleep(back_off)
            back_off = min(LONGEST_BACK_OFF_S, 2 * back_off)

    async def _read(self) -> None:
        positions = {key: written(stream.last) for key, stream in self.streams.items()}
        positions[self.wake_key] = written(self.wake_last)
        answer = await self.waiting.xread(positions, count=ENTRIES_AT_ONCE, block=BLOCK_MS)
        for name, pairs in answer:
            key = name.decode()
            if key == self.wake_key:
                self.wake_last = read(pairs[-1][0])
            elif stream := self.streams.get(key):
                self._deliver(key, stream, pairs)

    def _deliver(self, key: str, stream: Stream, pairs: list) -> None:
        for pair in pairs:
            entry = entry_of(key, *pair)
            # The stream may have been dropped and watched again, from later on, while XREAD was out.
            if entry.id > stream.last:
                stream.last = entry.id
                chunk_heard(entry.id[0])
                for watcher in stream.watchers:
                    watcher.put(entry)
                if key.startswith("live:") and entry.chunk["t"] == "started":
                    self._follow_for_all(stream, rollout_key(entry.chunk["r"]))

    def _follow_for_all(self, topic: Stream, key: str) -> None:
        """A rollout begins: whoever watches its topic gets it from its first entry, with no question to Redis of their own."""
        if key not in self.streams:
            self.streams[key] = Stream(START, set(topic.watchers))

    async def _look_for_losses(self) -> None:
        """After a reconnection: a stream that lacks the entry read last is not the one we knew."""
        known = {key: stream.last for key, stream in self.streams.items() if stream.last != START}
        if not known:
            return
        for key, entries in (await self.past(known, 1)).items():
            stream = self.streams.get(key)
            if stream and (not entries or entries[0].id != known[key]):
                stream.last = START
                for watcher in stream.watchers:
                    watcher.put(Lost(key))

    def _tell(self, news: Reachable) -> None:
        for watcher in {watcher for stream in self.streams.values() for watcher in stream.watchers}:
            watcher.put(news)

    async def _newest(self, keys: list[str]) -> dict[str, EntryId]:
        """The id of each stream's newest entry, START for those without any."""
        pipe = self.redis.pipeline(transaction=False)
        for key in keys:
            pipe.xrevrange(key, count=1)
        return {key: read(pairs[0][0]) if pairs else START for key, pairs in zip(keys, await _answers(pipe), strict=True)}

    async def _wake(self) -> None:
        """Make the blocked XREAD return, so that it takes up the streams that were added."""
        pipe = self.redis.pipeline(transaction=False)
        pipe.xadd(self.wake_key, {"w": ""}, maxlen=1, approximate=False).expire(self.wake_key, 60)
        await _answers(pipe)


async def _answers(pipe: Pipeline) -> list:
    """What Redis answers. Raises DEAD_REDIS, TimeoutError among them.

    The time is kept here: redis-py keeps its own with `asyncio.wait_for`, in which Python 3.11 loses a cancellation that comes
    together with the answer. The hub's reader would then read on, for nobody.
    """
    async with asyncio.timeout(ANSWER_S):
        return await pipe.execute()


def read(text: bytes | str) -> EntryId:
    """`1699-0` as a pair that compares as Redis does. Raises ValueError."""
    milliseconds, _, number = (text.decode() if isinstance(text, bytes) else text).partition("-")
    return int(milliseconds), int(number)


def written(entry_id: EntryId) -> str:
    return f"{entry_id[0]}-{entry_id[1]}"


def entry_of(key: str, entry_id: bytes, fields: dict) -> Entry:
    said = fields[b"c"].decode()
    return Entry(key, read(entry_id), json.loads(said), f'{{"id":"{entry_id.decode()}",{said[1:]}')
