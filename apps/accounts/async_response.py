"""Long-running responses: a view hands its request to the event loop and frees its thread.

A view runs in one of a few threads (rftweb.threads). A view that has to wait registers an ASGI
application that answers in its place; the view's own response is then not sent. Without an event
loop (under a plain WSGI server) the view's response is sent.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from django.http import HttpRequest

SCOPE = "asgi.scope"  # key of the ASGI scope in the request's environment
LATER = "rftweb.later"
EVENTS = "text/event-stream; charset=utf-8"
STILL_HERE = b": the policy is at it\n\n"  # an SSE comment, sent after a silence
Receive = Callable[[], Awaitable[dict]]
Send = Callable[[dict], Awaitable[None]]
Application = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


def answer_later(request: HttpRequest, application: Application) -> bool:
    """Let an ASGI application send the response once the view has returned.

    Returns False if the view must answer itself.
    """
    if not may_answer_later(request):
        return False
    request.META[SCOPE][LATER].append(application)
    return True


def may_answer_later(request: HttpRequest) -> bool:
    """Tell whether there is an event loop that could send the response."""
    return LATER in request.META.get(SCOPE, ())


class AsyncResponseMiddleware:
    """ASGI middleware for an application whose views may use `answer_later`."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        later: list[Application] = []

        async def send_unless_later(message: dict) -> None:
            if not later:
                await send(message)

        await self.application({**scope, LATER: later}, receive, send_unless_later)
        if later:
            await later[-1](scope, receive, send)


async def unless_gone(work: Awaitable[Any], receive: Receive) -> Any:
    """Return the work's result, or None if the client disconnects first.

    The work is then cancelled.
    """
    doing = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(receive())
    try:
        await asyncio.wait({doing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return doing.result() if doing.done() else None
    finally:
        doing.cancel()
        leaving.cancel()


async def send_json(
    send: Send, status: int, document: object, media_type: str = "application/json", **headers: str
) -> None:
    """Send a complete JSON response; `_` in names of headers stands for `-`."""
    body = json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
    fields = {
        "content-type": media_type,
        "content-length": str(len(body)),
        "x-content-type-options": "nosniff",
        **headers,
    }
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


async def send_events(send: Send, parts: AsyncGenerator[bytes], **headers: str) -> None:
    """Send server-sent events as they are produced.

    An exception that `parts` raises before its first event propagates before anything was sent.
    """
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
