"""One channel-layer subscription per web process, which passes run events on to all its sockets.

A received event is only a hint: a socket that notices a missing sequence number reads Postgres.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from weakref import WeakKeyDictionary

from channels.layers import get_channel_layer

from apps.streaming.chunks import DEAD_REDIS
from apps.streaming.delays import event_heard
from apps.streaming.watcher import Watcher
from apps.streaming.worker_notifications import group_name

BACK_OFF_S = 1.0


class EventHub:
    """A subscription of one event loop; get it with `EventHub.here()`.

    It never raises because of Redis.
    """

    of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, "EventHub"] = WeakKeyDictionary()

    def __init__(self) -> None:
        self.watchers: dict[str, set[Watcher]] = defaultdict(set)
        self.layer = get_channel_layer()
        self.channel = ""
        self.listener: asyncio.Task | None = None

    @classmethod
    def here(cls) -> "EventHub":
        """Return the event hub of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in cls.of_loop:
            cls.of_loop[loop] = cls()
        return cls.of_loop[loop]

    async def watch(self, watcher: Watcher, topics: Iterable[str]) -> None:
        """Put every announced event of these topics into the watcher, as a dictionary."""
        added = [topic for topic in topics if not self.watchers.get(topic)]
        for topic in topics:
            self.watchers[topic].add(watcher)
        if self.listener is None or self.listener.done():
            self.listener = asyncio.create_task(self._listen_for_ever())
        elif self.channel:
            await self._join(added)

    def forget(self, watcher: Watcher) -> None:
        """Put nothing more into the watcher.

        The groups of its topics are left when nothing in this process watches any topic.
        """
        for watchers in self.watchers.values():
            watchers.discard(watcher)
        self.watchers = defaultdict(
            set, {topic: watchers for topic, watchers in self.watchers.items() if watchers}
        )
        if not self.watchers and self.listener:
            self.listener.cancel()
            self.listener = None
            self.channel = ""

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
            if self.listener is None:  # everybody left meanwhile
                return
            # Start again: the listener joins the groups of every watched topic once Redis answers.
            self.listener.cancel()
            self.channel, self.listener = "", asyncio.create_task(self._listen_for_ever())
