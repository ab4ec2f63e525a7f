"""A view can defer its response to the event loop: then the loop responds, and the view's own
response is not sent.
"""

import asyncio
import json
from collections.abc import Callable

from django.test import RequestFactory

from apps.accounts.async_response import SCOPE as SCOPE_AS
from apps.accounts.async_response import (
    AsyncResponseMiddleware,
    answer_later,
    send_json,
    unless_gone,
)
from rftweb.threads import InThreads
from tests.infra.test_threads import SCOPE


def asked(view: Callable, leaves: bool = False) -> list[dict]:
    """Return the ASGI messages that a client of this view receives."""
    told: list[dict] = []
    messages = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict:
        if messages:
            return messages.pop()
        if leaves:
            return {"type": "http.disconnect"}
        await asyncio.Event().wait()

    async def send(message: dict) -> None:
        told.append(message)

    def application(environ, start):
        request = RequestFactory().get("/")
        request.META.update(environ)
        view(request)
        start("202 Accepted", [("Content-Type", "text/plain")])
        return [b"not yet"]

    asyncio.run(
        AsyncResponseMiddleware(InThreads(application, scope_as=SCOPE_AS, threads=1))(
            SCOPE, receive, send
        )
    )
    return told


async def _left(scope: dict, receive: Callable, send: Callable) -> None:
    found = await unless_gone(asyncio.sleep(0.01, "left"), receive)
    await send_json(send, 200, {"action": found}, retry_after="1")


def test_deferred_response_replaces_the_response_of_the_view():
    head, body = asked(lambda request: answer_later(request, _left))
    assert head["status"] == 200 and dict(head["headers"])[b"retry-after"] == b"1"
    assert json.loads(body["body"]) == {"action": "left"}


def test_view_that_defers_nothing_sends_its_own_response():
    head, body = asked(lambda request: None)
    assert (head["status"], body["body"]) == (202, b"not yet")


def test_work_is_cancelled_when_the_client_disconnects():
    ended: list[str] = []

    async def endless(scope: dict, receive: Callable, send: Callable) -> None:
        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("ended")

        assert await unless_gone(work(), receive) is None

    assert asked(lambda request: answer_later(request, endless), leaves=True) == []
    assert ended == ["ended"]


def test_response_cannot_be_deferred_without_an_event_loop():
    assert answer_later(RequestFactory().get("/"), _left) is False
