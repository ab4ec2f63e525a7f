"""Nobody holds one of the few threads by not reading the answer."""

import asyncio

from rftweb import threads

SCOPE = {"method": "GET", "path": "/", "query_string": b"", "http_version": "1.1", "headers": []}


async def receive() -> dict:
    return {"type": "http.request", "body": b""}


async def never_taken(_: dict) -> None:
    await asyncio.Event().wait()


class Parts(list):
    is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_a_client_that_takes_nothing_is_left(monkeypatch):
    monkeypatch.setattr(threads, "SEND_S", 0.05)
    parts = Parts([b"one", b"two"])

    def application(_environ, start) -> Parts:
        start("200 OK", [])
        return parts

    asyncio.run(asyncio.wait_for(threads.InThreads(application, "asgi.scope", threads=1)(SCOPE, receive, never_taken), 30))
    assert parts.is_closed
