"""HTTP in threads: requests reach the application complete, and responses reach the client in
order.
"""

import asyncio
import threading
from tempfile import SpooledTemporaryFile

import pytest

from rftweb import request_bodies
from rftweb.threads import InThreads

SCOPE = {
    "type": "http",
    "http_version": "1.1",
    "method": "POST",
    "path": "/rate/é/",
    "query_string": b"run=3",
    "root_path": "",
    "scheme": "https",
    "server": ("127.0.0.1", 8000),
    "client": ("10.0.0.7", 5),
    "headers": [],
}


class Client:
    """A client that sends a request in parts and records the response."""

    def __init__(self, *parts: bytes, leaves: bool = False, **scope: object) -> None:
        self.scope = {**SCOPE, **scope}
        more = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
        end = (
            {"type": "http.disconnect"}
            if leaves
            else {"type": "http.request", "body": b"", "more_body": False}
        )
        self.messages = iter([*more, end])
        self.told = []

    def ask(self, application) -> list[dict]:
        async def receive() -> dict:
            message = next(self.messages, None)
            return message or await asyncio.Event().wait()

        async def send(message: dict) -> None:
            self.told.append(message)

        asyncio.run(InThreads(application, "asgi.scope", threads=2)(self.scope, receive, send))
        return self.told

    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.told)


def echo(environ, start):
    start("201 Created", [("Content-Type", "text/plain"), ("X-Method", environ["REQUEST_METHOD"])])
    return [environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))]


def seen(**scope: object) -> dict:
    found: dict = {}

    def look(environ, start):
        found.update(environ)
        start("204 No Content", [])
        return []

    Client(**scope).ask(look)
    return found


def test_body_in_parts_arrives_complete_and_the_response_ends_once():
    client = Client(b"half ", b"and half")
    head, *parts = client.ask(echo)
    assert (head["status"], dict(head["headers"])[b"x-method"]) == (201, b"POST")
    assert client.body() == b"half and half" and [part["more_body"] for part in parts] == [False]


def test_body_larger_than_the_memory_limit_arrives_complete():
    parts = [bytes(range(256)) * 4096] * 2
    messages = iter(
        [
            *({"type": "http.request", "body": part, "more_body": True} for part in parts),
            {"type": "http.request"},
        ]
    )

    async def receive() -> dict:
        return next(messages)

    with SpooledTemporaryFile(max_size=request_bodies.IN_MEMORY) as kept:
        length = asyncio.run(request_bodies.ArrivingBody(limit=2**21, into=kept).read(receive))
        assert (length, kept.read()) == (2**21, b"".join(parts))


def test_streamed_response_keeps_its_order_and_uses_one_thread():
    threads = set()

    def stream(_environ, start):
        start("200 OK", [])
        for n in range(50):
            threads.add(threading.get_ident())
            yield f"{n};".encode()

    client = Client()
    told = client.ask(stream)
    assert client.body() == b"".join(f"{n};".encode() for n in range(50)) and len(threads) == 1
    assert [message["more_body"] for message in told[1:]] == [True] * (len(told) - 2) + [False]


def test_paths_and_headers_follow_the_wsgi_conventions():
    headers = [
        (b"cookie", b"a=1"),
        (b"cookie", b"b=2"),
        (b"x-forwarded-proto", b"https"),
        (b"content-type", b"text/plain"),
    ]
    environ = seen(headers=headers)
    assert (
        environ["PATH_INFO"].encode("latin-1").decode() == "/rate/é/"
        and environ["QUERY_STRING"] == "run=3"
    )
    assert environ["HTTP_COOKIE"] == "a=1; b=2" and environ["HTTP_X_FORWARDED_PROTO"] == "https"
    assert (environ["CONTENT_TYPE"], environ["REMOTE_ADDR"], environ["wsgi.url_scheme"]) == (
        "text/plain",
        "10.0.0.7",
        "https",
    )


def test_header_with_an_underscore_cannot_pass_for_one_with_a_hyphen():
    assert "HTTP_X_CSRFTOKEN" not in seen(headers=[(b"x_csrftoken", b"stolen")])


def test_content_length_is_measured_and_not_taken_from_the_header():
    assert (
        seen(headers=[(b"content-length", b"99"), (b"host", b"localhost")])["CONTENT_LENGTH"] == "0"
    )


def test_client_that_disconnects_while_sending_gets_no_response():
    called = []
    client = Client(b"half", leaves=True)
    assert client.ask(lambda *_: called.append(1)) == [] and called == []


def test_response_iterable_is_closed_when_it_fails_midway():
    class Answer(list):
        closed = False

        def __iter__(self):
            yield b"some"
            raise ValueError("broken")

        def close(self):
            self.closed = True

    answer = Answer()

    def fail(_environ, start):
        start("200 OK", [])
        return answer

    with pytest.raises(ValueError, match="broken"):
        Client().ask(fail)
    assert answer.closed
