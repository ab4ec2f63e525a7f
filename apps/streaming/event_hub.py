"""One subscription to the channel layer per web process, which fans run events out to all its sockets.

What is heard here is a hint with the event inside: whoever notices a missing sequence number asks Postgres.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from weakref import WeakKeyDictionary

from channels.layers import get_channel_layer

from apps.streaming.bells import group_name
from apps.streaming.chunks import DEAD_REDIS
from apps.streaming.lags import event_heard
from apps.streaming.watcher import Watcher

BACK_OFF_S = 1.0


class EventHub:
    """Belongs to one event loop; `EventHub.here()` finds it. Never raises because of Redis."""

    of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, "EventHub"] = WeakKeyDictionary()

    def __init__(self) -> None:
        self.watchers: dict[str, set[Watcher]] = defaultdict(set)
        self.layer = get_channel_layer()
        self.channel = ""
        self.listener: asyncio.Task | None = None

    @classmethod
    def here(cls) -> "EventHub":
        """The event hub of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in cls.of_loop:
            cls.of_loop[loop] = cls()
        return cls.of_loop[loop]

    async def watch(self, watcher: Watcher, topics: Iterable[str]) -> None:
        """Put every announced event of these topics into the watcher, as its dictionary."""
        added = [topic for topic in topics if not self.watchers.get(topic)]
        for topic in topics:
            self.watchers[topic].add(watcher)
        if self.listener is None or self.listener.done():
            self.listener = asyncio.create_task(self._listen_for_ever())
        elif self.channel:
            await self._join(added)

    def forget(self, watcher: Watcher) -> None:
        """Put nothing more into the watcher. Its topics' groups are left when nobody here watches anything."""
        for watchers in self.watchers.values():
            watchers.discard(watcher)
        self.watchers = defaultdict(set, {topic: watchers for topic, watchers in self.watchers.items() if watchers})
        if not self.watchers and self.listener:
            self.listener.cancel()
            self.listener, self.channel = None, ""

    async def _listen_for_ever(self) -> None:
        while True:
            try:
                self.channel = await self.layer.new_channel()
                await self._join_all(list(self.watchers))
                while True:
                    self._deliver(await self.layer.receive(self.channel))
            except DEAD_REDIS:
                self.channel = ""
                await asyncio.sleep(BACK_OFF_S)

    def _deliver(self, message: dict) -> None:
        event_heard(message["at"])
        for watcher in self.watchers.get(message["topic"], ()):
            watcher.put(message)

    async def _join_all(self, topics: list[str]) -> None:
        for topic in topics:
            await self.layer.group_add(group_name(topic), self.channel)

    async def _join(self, topics: list[str]) -> None:
        try:
            await self._join_all(topics)
        except DEAD_REDIS:
            # Begin again: the listener joins every watched topic once Redis answers.
            self.listener.cancel()
            self.channel, self.listener = "", asyncio.create_task(self._listen_for_ever())
