"""Middleware that gives the web process a row among the workers and counts its requests.

The row begins and ends with the lifespan messages of the server.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from apps.accounts import confining
from apps.runs.models import Worker
from apps.runs.worker_registry import ServerRegistration
from rftweb.control_watch import ControlWatch

Receive = Callable[[], Awaitable[dict]]
Send = Callable[[dict], Awaitable[None]]
Application = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


class HeartbeatMiddleware:
    """ASGI middleware around an application for HTTP and web sockets.

    A server that supports the lifespan protocol (uvicorn --lifespan on) has a row; otherwise
    (tests, commands that only import the application) there is none. Nothing here waits for the
    database.
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
        """Return the open requests and sockets, and the requests per second since the last call.

        The heartbeat thread calls it.
        """
        now = time.monotonic()
        begun = self.begun
        rate = (begun - self._told) / max(now - self._told_at, 1e-3)
        self._told = begun
        self._told_at = now
        requests = self.open["http"]
        sockets = self.open["websocket"]
        return (
            f"{_counted(requests, 'request')} and {_counted(sockets, 'socket')} open, {rate:.1f}"
            " requests/s"
        )

    async def _live(self, receive: Receive, send: Send) -> None:
        presence = ServerRegistration(Worker.Role.WEB, self.doing, ControlWatch().step)
        while (kind := (await receive())["type"]) != "lifespan.shutdown":
            if kind == "lifespan.startup":
                confining.confine_web_process()
                presence.begin()
                await send({"type": "lifespan.startup.complete"})
        await asyncio.to_thread(presence.end)
        await send({"type": "lifespan.shutdown.complete"})


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
