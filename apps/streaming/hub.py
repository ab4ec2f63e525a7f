"""One reader of Redis streams per web process, which passes chunks on to all its sockets.

One blocking XREAD covers every stream that is watched in this process. A watcher that must not miss
anything first calls `watch`, then reads the past with `past`, then drops entries whose id it has
already seen. The hub waits for an unavailable Redis, and tells the watchers what was lost.
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
from redis.typing import KeyT, StreamIdT

from apps.streaming.chunks import DEAD_REDIS, rollout_key
from apps.streaming.delays import chunk_heard
from apps.streaming.watcher import Watcher

log = structlog.get_logger(__name__)
EntryId = tuple[int, int]
START: EntryId = (0, 0)
BLOCK_MS = 5_000
ANSWER_S = 10.0  # for Redis, including the wait for a connection
ENTRIES_AT_ONCE = 200
MAX_BACK_OFF_S = 5.0
MAX_CONNECTIONS = 8
# Fields of a chunk that blind raters see: neither the weight version nor logprobs.
BLIND = frozenset(
    {
        "id",
        "r",
        "t",
        "topic",
        "group",
        "question",
        "turn",
        "o",
        "keep",
        "n",
        "x",
        "by",
        "e",
        "s",
        "stop",
    }
)


@dataclass(frozen=True)
class Entry:
    """One chunk of the stream `key`.

    `text` is its JSON with its id, made once for all watchers.
    """

    key: str
    id: EntryId
    chunk: dict
    text: str

    @cached_property
    def blind_text(self) -> str:
        """Return the JSON for people who rate blind, made once for all of them."""
        chunk = {"id": format_entry_id(self.id)} | {
            name: value for name, value in self.chunk.items() if name in BLIND
        }
        return json.dumps(chunk, ensure_ascii=True, separators=(",", ":"))


@dataclass(frozen=True)
class StreamLost:
    """A notice that Redis lost the past of this stream; the chunks that follow may have a gap."""

    key: str


@dataclass(frozen=True)
class RedisReachable:
    """A notice of whether the hub can read from Redis now."""

    yes: bool


@dataclass
class Stream:
    """A watched stream: the id of the last entry read, and its watchers."""

    last: EntryId
    watchers: set[Watcher] = field(default_factory=set)


class Hub:
    """The reader of one event loop; get it with `Hub.here()`."""

    of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, "Hub"] = WeakKeyDictionary()

    def __init__(self, url: str) -> None:
        once = Retry(NoBackoff(), 0)
        # Few connections that many sockets share: hundreds at once would time out, and an
        # unavailable Redis would take longer to detect. No socket timeout, see `_answers`.
        pool = redis.asyncio.BlockingConnectionPool.from_url(
            url,
            max_connections=MAX_CONNECTIONS,
            timeout=ANSWER_S,
            socket_timeout=None,
            socket_connect_timeout=2,
            retry=once,
        )
        self.redis = redis.asyncio.Redis.from_pool(pool)
        # The blocking reader must have no socket timeout: redis-py's default of 5 s is shorter than
        # its wait.
        self.waiting = redis.asyncio.Redis.from_url(
            url, socket_timeout=None, socket_connect_timeout=2, retry=once
        )
        self.streams: dict[str, Stream] = {}
        self.wake_key = f"wake:{uuid.uuid4().hex}"
        self.wake_last = START
        self.reader: asyncio.Task | None = None

    @classmethod
    def here(cls) -> "Hub":
        """Return the hub of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in cls.of_loop:
            cls.of_loop[loop] = cls(settings.REDIS_URL)
        return cls.of_loop[loop]

    # -- interface for watchers

    async def watch(self, watcher: Watcher, keys: Iterable[str]) -> None:
        """Put every entry that is written from now on into the watcher.

        Raises DEAD_REDIS; nothing is watched then.
        """
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
        """Tell whether this stream's entries go into the watcher."""
        return key in self.streams and watcher in self.streams[key].watchers

    def forget(self, watcher: Watcher, keys: Iterable[str] | None = None) -> None:
        """Put nothing more of these streams into the watcher; of any stream if none is named."""
        for key in list(self.streams if keys is None else keys):
            if stream := self.streams.get(key):
                stream.watchers.discard(watcher)
                if not stream.watchers:
                    del self.streams[key]
        if not self.streams and self.reader:
            self.reader.cancel()
            self.reader = None

    async def past(self, spans: dict[str, EntryId], count: int) -> dict[str, list[Entry]]:
        """Return up to `count` entries of each stream from the given id on, oldest first."""
        pipe = self.redis.pipeline(transaction=False)
        for key, first in spans.items():
            pipe.xrange(key, min=format_entry_id(first), count=count)
        return {
            key: [decode_entry(key, *pair) for pair in pairs]
            for key, pairs in zip(spans, await _answers(pipe), strict=True)
        }

    # -- the reader

    async def _read_for_ever(self) -> None:
        back_off = 0.1
        while True:
            try:
                await self._look_for_losses()
                self._notify_watchers(RedisReachable(True))
                back_off = 0.1
                while True:
                    await self._read()
            except DEAD_REDIS:
                self._notify_watchers(RedisReachable(False))
            except Exception:
                log.exception("hub_failed")
                self._notify_watchers(RedisReachable(False))
            await asyncio.sleep(back_off)
            back_off = min(MAX_BACK_OFF_S, 2 * back_off)

    async def _read(self) -> None:
        positions: dict[KeyT, StreamIdT] = {
            key: format_entry_id(stream.last) for key, stream in self.streams.items()
        }
        positions[self.wake_key] = format_entry_id(self.wake_last)
        answer = await self.waiting.xread(positions, count=ENTRIES_AT_ONCE, block=BLOCK_MS)
        assert isinstance(answer, list)  # a dictionary only with `legacy_responses=False`
        for name, pairs in answer:
            key = name.decode()
            if key == self.wake_key:
                self.wake_last = parse_entry_id(pairs[-1][0])
            elif stream := self.streams.get(key):
                self._deliver(key, stream, pairs)

    def _deliver(self, key: str, stream: Stream, pairs: list) -> None:
        for pair in pairs:
            entry = decode_entry(key, *pair)
            # The stream may have been dropped and watched again, from a later id on, during XREAD.
            if entry.id > stream.last:
                stream.last = entry.id
                chunk_heard(entry.id[0])
                for watcher in stream.watchers:
                    watcher.put(entry)
                if key.startswith("live:") and entry.chunk["t"] == "started":
                    self._follow_for_all(stream, rollout_key(entry.chunk["r"]))

    def _follow_for_all(self, topic: Stream, key: str) -> None:
        """Watch a new rollout for every watcher of its topic, from its first entry on.

        No request to Redis is necessary for it.
        """
        if key not in self.streams:
            self.streams[key] = Stream(START, set(topic.watchers))

    async def _look_for_losses(self) -> None:
        """Reset streams that lost the entry read last, and notify their watchers.

        Called after a reconnection: such a stream was lost and is written again.
        """
        last_read = {
            key: stream.last for key, stream in self.streams.items() if stream.last != START
        }
        if not last_read:
            return
        for key, entries in (await self.past(last_read, 1)).items():
            stream = self.streams.get(key)
            if stream and (not entries or entries[0].id != last_read[key]):
                stream.last = START
                for watcher in stream.watchers:
                    watcher.put(StreamLost(key))

    def _notify_watchers(self, news: RedisReachable) -> None:
        for watcher in {watcher for stream in self.streams.values() for watcher in stream.watchers}:
            watcher.put(news)

    async def _newest(self, keys: list[str]) -> dict[str, EntryId]:
        """Return the id of each stream's newest entry, START for empty streams."""
        pipe = self.redis.pipeline(transaction=False)
        for key in keys:
            pipe.xrevrange(key, count=1)
        return {
            key: parse_entry_id(pairs[0][0]) if pairs else START
            for key, pairs in zip(keys, await _answers(pipe), strict=True)
        }

    async def _wake(self) -> None:
        """Make the blocking XREAD return, so that it includes the streams that were added."""
        pipe = self.redis.pipeline(transaction=False)
        pipe.xadd(self.wake_key, {"w": ""}, maxlen=1, approximate=False)
        pipe.expire(self.wake_key, 60)
        await _answers(pipe)


async def _answers(pipe: Pipeline) -> list:
    """Run the pipeline and return its answers; raise DEAD_REDIS, also after a timeout.

    The timeout is applied here because redis-py applies its own with `asyncio.wait_for`, in which
    Python 3.11 loses a cancellation that arrives together with the answer. The reader would then go
    on without any watcher.
    """
    async with asyncio.timeout(ANSWER_S):
        return await pipe.execute()


def parse_entry_id(text: bytes | str) -> EntryId:
    """Parse an entry id such as `1699-0` into a pair that sorts as in Redis. Raise ValueError."""
    milliseconds, _, number = (text.decode() if isinstance(text, bytes) else text).partition("-")
    return int(milliseconds), int(number)


def format_entry_id(entry_id: EntryId) -> str:
    return f"{entry_id[0]}-{entry_id[1]}"


def decode_entry(key: str, entry_id: bytes, fields: dict) -> Entry:
    chunk = fields[b"c"].decode()
    return Entry(
        key,
        parse_entry_id(entry_id),
        json.loads(chunk),
        f'{{"id":"{entry_id.decode()}",{chunk[1:]}',
    )
