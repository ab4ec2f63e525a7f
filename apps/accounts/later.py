"""Answers that take their time: a view hands the request over to the event loop and gives its thread back.

A view runs in one of a few threads (rftweb.threads). What has to wait is left by it as an ASGI application of its own, which
answers in the view's place; the view's own answer is then not sent. Where no loop serves the request (a plain WSGI server)
nobody can wait, and the view's answer stands.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from django.http import HttpRequest

SCOPE = "asgi.scope"  # where the connection's scope stands in the request's environment
LATER = "rftweb.later"
EVENTS = "text/event-stream; charset=utf-8"
STILL_HERE = b": the policy is at it\n\n"  # a comment, after a silence
Receive, Send = Callable[[], Awaitable[dict]], Callable[[dict], Awaitable[None]]
Application = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


def answer_later(request: HttpRequest, application: Application) -> bool:
    """Let this application answer when the view has returned. False where the view must answer by itself."""
    scope = request.META.get(SCOPE)
    if scope is None or LATER not in scope:
        return False
    scope[LATER].append(application)
    return True


class Later:
    """An ASGI application around one whose views may leave their answers."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        left: list[Application] = []

        async def unless_left(message: dict) -> None:
            if not left:
                await send(message)

        await self.application({**scope, LATER: left}, receive, unless_left)
        if left:
            await left[-1](scope, receive, send)


async def unless_gone(work: Awaitable[Any], receive: Receive) -> Any:
    """The work's result; None when the client leaves before, and the work is then cancelled."""
    doing, leaving = asyncio.ensure_future(work), asyncio.ensure_future(receive())
    try:
        await asyncio.wait({doing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return doing.result() if doing.done() else None
    finally:
        doing.cancel()
        leaving.cancel()


async def send_json(send: Send, status: int, document: object, media_type: str = "application/json", **headers: str) -> None:
    """The whole answer; in the names of headers `_` stands for `-`."""
    body = json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
    fields = {"content-type": media_type, "content-length": str(len(body)), "x-content-type-options": "nosniff", **headers}
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


async def send_events(send: Send, parts: AsyncGenerator[bytes], **headers: str) -> None:
    """Server-sent events as they come. What `parts` raises before the first is raised while nothing has been sent yet."""
    fields = {"content-type": EVENTS, "x-accel-buffering": "no", **headers}
    raw = [(name.lower().encode(), value.encode()) for name, value in fields.items()]
    begun = False
    async with aclosing(parts):
        async for part in parts:
            if not begun:
                await send({"type": "http.response.start", "status": 200, "headers": raw})
                begun = True
            await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
