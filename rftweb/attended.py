"""The web process among the workers: what its server says of its life begins and ends its row, and what it serves is counted."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from apps.accounts import confining
from apps.runs.attendance import Presence
from apps.runs.models import Worker
from rftweb.control_watch import ControlWatch

Receive, Send = Callable[[], Awaitable[dict]], Callable[[dict], Awaitable[None]]
Application = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


class Attended:
    """An ASGI application around one of HTTP and sockets.

    A server that speaks the lifespan protocol (uvicorn --lifespan on) has a row; where none is spoken (tests, commands that
    only import the application) there is none. Nothing here waits for the database.
    """

    def __init__(self, application: Application) -> None:
        self.application = application
        self.open = {"http": 0, "websocket": 0}
        self.begun, self._told, self._told_at = 0, 0, time.monotonic()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "lifespan":
            await self._live(receive, send)
            return
        self.open[kind] += 1
        self.begun += kind == "http"
        try:
            await self.application(scope, receive, send)
        finally:
            self.open[kind] -= 1

    def doing(self) -> str:
        """What is open now, and requests a second since it was asked last. Called by the thread that beats."""
        now, begun = time.monotonic(), self.begun
        rate = (begun - self._told) / max(now - self._told_at, 1e-3)
        self._told, self._told_at = begun, now
        requests, sockets = self.open["http"], self.open["websocket"]
        return f"{_counted(requests, 'request')} and {_counted(sockets, 'socket')} open, {rate:.1f} requests/s"

    async def _live(self, receive: Receive, send: Send) -> None:
        presence = Presence(Worker.Role.WEB, self.doing, ControlWatch().step)
        while (said := (await receive())["type"]) != "lifespan.shutdown":
            if said == "lifespan.startup":
                confining.serve()
                presence.begin()
                await send({"type": "lifespan.startup.complete"})
        await asyncio.to_thread(presence.end)
        await send({"type": "lifespan.shutdown.complete"})


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
