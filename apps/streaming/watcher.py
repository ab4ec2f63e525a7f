"""The inbox of one socket: bounded, and emptied one frame at a time."""

import asyncio
from collections import deque
from typing import Any

COALESCE_S = 0.075
MAX_WAITING = 10_000


class TooSlow(Exception):
    """Raised when the browser reads too slowly; it must reconnect and say what it has."""


class Watcher:
    """An inbox that hubs fill and one task empties, all on one event loop."""

    def __init__(self, most_waiting: int = MAX_WAITING, coalesce_s: float = COALESCE_S) -> None:
        self.items: deque[Any] = deque()
        self.most_waiting = most_waiting
        self.coalesce_s = coalesce_s
        self.overflowed = False
        self.wakeup = asyncio.Event()

    def put(self, item: Any) -> None:
        if len(self.items) >= self.most_waiting:
            self.items.clear()
            self.overflowed = True
        if not self.overflowed:
            self.items.append(item)
        self.wakeup.set()

    async def take(self, seconds: float | None = None) -> list[Any]:
        """Return everything that arrived, after the coalescing interval.

        Returns an empty list after `seconds` without arrivals. Raises TooSlow if something had to
        be discarded.
        """
        try:
            async with asyncio.timeout(seconds):
                await self.wakeup.wait()
        except TimeoutError:
            return []
        await asyncio.sleep(self.coalesce_s)
        self.wakeup.clear()
        if self.overflowed:
            raise TooSlow(f"more than {self.most_waiting} chunks waiting")
        arrived = list(self.items)
        self.items.clear()
        return arrived
