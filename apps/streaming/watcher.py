"""One socket's inbox: bounded, drained a frame at a time."""

import asyncio
from collections import deque
from typing import Any

COALESCE_S = 0.075
MOST_WAITING = 10_000


class TooSlow(Exception):
    """The browser takes less than it is sent; it must reconnect and say what it has."""


class Watcher:
    """Hubs put, one task takes. All on one event loop."""

    def __init__(self, most_waiting: int = MOST_WAITING, coalesce_s: float = COALESCE_S) -> None:
        self.items: deque[Any] = deque()
        self.most_waiting, self.coalesce_s = most_waiting, coalesce_s
        self.overflowed = False
        self.bell = asyncio.Event()

    def put(self, item: Any) -> None:
        if len(self.items) >= self.most_waiting:
            self.items.clear()
            self.overflowed = True
        if not self.overflowed:
            self.items.append(item)
        self.bell.set()

    async def take(self, seconds: float | None = None) -> list[Any]:
        """Everything that came, once something has, and the coalescing interval over; empty after `seconds` of silence.

        Raises TooSlow when something had to be thrown away.
        """
        try:
            async with asyncio.timeout(seconds):
                await self.bell.wait()
        except TimeoutError:
            return []
        await asyncio.sleep(self.coalesce_s)
        self.bell.clear()
        if self.overflowed:
            raise TooSlow(f"more than {self.most_waiting} chunks were waiting")
        taken = list(self.items)
        self.items.clear()
        return taken
