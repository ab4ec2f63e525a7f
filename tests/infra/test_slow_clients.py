"""Clients that send or read slowly, or send too much: real sockets on a real uvicorn server with
short limits.
"""

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
import uvicorn
from django.core.wsgi import get_wsgi_application

from rftweb import answers, http_protocol, request_bodies
from rftweb.http_protocol import BoundedHttp
from rftweb.threads import InThreads

MB = 1024 * 1024
LARGE = 16 * MB  # more than all buffers between server and client can hold
NEVER_S = 600.0  # longer than any test: a client that waits this long is blocked


class Download:
    """A response that is produced while it is sent, like the streamed responses of Django."""

    streaming = True
    closed = 0

    def __init__(self, owner: str, parts: int) -> None:
        self.downloaded_by = owner
        self.count = parts

    def __iter__(self) -> Iterator[bytes]:
        return (b"x" * MB for _ in range(self.count))

    def close(self) -> None:
        Download.closed += 1


def site(environ, start):
    """Serve large responses at /download/OWNER and /whole/; leave everything else to Django."""
    path = environ["PATH_INFO"]
    if path.startswith("/download/"):
        start("200 OK", [])
        return Download(path.removeprefix("/download/"), LARGE // MB)
    if path == "/whole/":
        start("200 OK", [("Content-Length", str(LARGE))])
        return [b"x" * LARGE]
    return django(environ, start)


django = get_wsgi_application()


class Site:
    """A server in a separate thread."""

    def __init__(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        self.application = InThreads(site, "asgi.scope", threads=4)
        config = uvicorn.Config(
            self.application, http=BoundedHttp, lifespan="off", log_level="critical"
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, args=([listener],), daemon=True)
        self.thread.start()

    def send(self, data: bytes) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        connection.sendall(data)
        return connection

    def answer(self, data: bytes) -> tuple[int, str]:
        """Return the status and the body; the server must close the connection afterwards."""
        with self.send(data) as connection:
            read = _all_of(connection)
        head, _, body = read.partition(b"\r\n\r\n")
        return int(head.split()[1]), body.decode()

    def serves_others(self) -> bool:
        """Return whether /healthz responds, long before any slow client is given up."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=NEVER_S / 10)
        connection.request("GET", "/healthz", headers={"Host": "localhost"})
        is_answered = connection.getresponse().status == 200
        connection.close()
        return is_answered

    def end(self) -> None:
        self.server.should_exit = self.server.force_exit = True
        self.thread.join(20)


def _all_of(connection: socket.socket) -> bytes:
    read = bytearray()
    with suppress(ConnectionResetError):
        while part := connection.recv(65_536):
            read += part
    return bytes(read)


@pytest.fixture
def web(monkeypatch):
    monkeypatch.setattr(http_protocol, "LOOK_EVERY_S", 0.1)
    running = Site()
    yield running
    running.end()


def request(path: str, *headers: str, method: str = "POST", host: str = "localhost") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", *headers, "", ""]).encode()


def sized(length: int) -> str:
    return f"Content-Length: {length}"


CHUNKED = "Transfer-Encoding: chunked"
REFUSED = [
    (request("/healthz", sized(400 * MB)), 413, "larger than 65536 bytes"),
    (request("/healthz", sized(400 * MB), method="GET"), 413, "larger than 65536 bytes"),
    (request("/nowhere/", sized(400 * MB)), 413, "larger than 65536 bytes"),
    (
        request("/healthz", CHUNKED) + b"11000\r\n" + b"x" * 0x11000 + b"\r\n",
        413,
        "larger than 65536 bytes",
    ),
    (request("/runs/", CHUNKED) + b"11000\r\n" + b"x" * 0x11000 + b"\r\n", 401, "Log in"),
    (
        request("/api/v1/ratings/", sized(5 * MB)),
        413,
        '"detail": "The body is larger than 4194304 bytes."',
    ),
    (request("/api/v1/ratings/", sized(3 * MB)), 401, "urn:rftweb:not_authenticated"),
    (request("/v1/chat/completions", sized(3 * MB)), 401, '"type": "invalid_request_error"'),
    (request("/imports/of/lab/", sized(900 * MB)), 401, "Log in"),
    (request("/imports/of/lab/", sized(2000 * MB)), 413, "larger than"),
    (request("/imports/of/lab/", CHUNKED), 411, "Content-Length"),
    (request("/healthz", sized(10), host="elsewhere.example"), 400, "host name"),
]


@pytest.mark.parametrize(("sent", "status", "words"), REFUSED, ids=lambda one: str(one)[:40])
def test_refused_body_gets_an_error_message_and_is_not_read(web, monkeypatch, sent, status, words):
    monkeypatch.setattr(request_bodies, "LINGER_S", 0.05)
    kept = []
    monkeypatch.setattr(request_bodies.BodyPolicy, "_read_large", lambda *_: kept.append(1))
    found, said = web.answer(sent)
    assert (found, kept) == (status, []) and words in said


def test_client_that_continues_sending_still_reads_the_refusal(web):
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=20)
    connection.request("POST", "/healthz", body=b"x" * (2 * MB), headers={"Host": "localhost"})
    assert connection.getresponse().status == 413


HALF = request("/accounts/login/", sized(100)) + b"half"


def test_fifty_half_sent_bodies_do_not_block_other_clients(web, monkeypatch):
    monkeypatch.setattr(request_bodies, "IDLE_S", NEVER_S)
    with ExitStack() as held:
        for _ in range(50):
            held.enter_context(web.send(HALF))
        assert web.serves_others()


def test_half_sent_body_is_given_up_after_the_idle_time(web, monkeypatch):
    monkeypatch.setattr(request_bodies, "IDLE_S", 0.3)
    with ExitStack() as held:
        for connection in [held.enter_context(web.send(HALF)) for _ in range(50)]:
            assert _all_of(connection).startswith(b"HTTP/1.1 408")


def test_body_that_arrives_too_slowly_is_given_up(web, monkeypatch):
    monkeypatch.setattr(request_bodies, "GRACE_S", 0.3)
    with web.send(request("/accounts/login/", sized(60_000))) as connection:
        ended = time.monotonic() + 10
        with suppress(ConnectionError):
            while time.monotonic() < ended:
                connection.sendall(b"x")
                connection.settimeout(0.05)
                with suppress(TimeoutError):
                    if part := connection.recv(4096):
                        assert part.startswith(b"HTTP/1.1 408") and b"bytes per second" in part
                        break
        assert time.monotonic() < ended


@pytest.mark.parametrize(
    "sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: local"], ids=["nothing", "half a head"]
)
def test_connection_without_a_request_is_closed(web, monkeypatch, sent):
    monkeypatch.setattr(http_protocol, "REQUEST_S", 0.3)
    with web.send(sent) as connection:
        assert _all_of(connection) == b""


def test_connections_beyond_the_limit_get_a_503_with_a_message(web, settings):
    settings.CONNECTIONS_PER_PROCESS = 3
    with ExitStack() as held:
        for _ in range(3):
            held.enter_context(web.send(b""))
        status, said = web.answer(b"")
    assert (status, said) == (503, "Too many open connections. Try again in a few seconds.\n")


@pytest.mark.parametrize("path", ["/download/{n}", "/whole/"])
def test_twenty_slow_readers_do_not_block_other_clients(web, monkeypatch, path):
    monkeypatch.setattr(answers, "SEND_S", NEVER_S)
    with ExitStack() as held:
        for n in range(20):
            connection = held.enter_context(web.send(request(path.format(n=n), method="GET")))
            assert connection.recv(9) == b"HTTP/1.1 "
        assert all(web.serves_others() for _ in range(5))


def test_download_arrives_complete_and_is_closed(web):
    before = Download.closed
    with web.send(request("/download/a", "Connection: close", method="GET")) as connection:
        read = _all_of(connection)
    assert read.count(b"x") == LARGE and Download.closed == before + 1


def test_download_is_closed_when_the_client_reads_nothing(web, monkeypatch):
    monkeypatch.setattr(answers, "SEND_S", 0.2)
    monkeypatch.setattr(http_protocol, "CLOSE_S", 0.2)
    downloads = web.application.downloads
    with web.send(request("/download/a", method="GET")) as connection:
        assert connection.recv(9) and downloads.open.total() == 1
        ended = time.monotonic() + 10
        while downloads.open.total() and time.monotonic() < ended:
            threading.Event().wait(0.02)
        assert downloads.open.total() == 0 and len(_all_of(connection)) < LARGE
    assert web.serves_others()


def test_number_of_open_downloads_per_user_is_limited(web):
    with ExitStack() as held:
        for _ in range(answers.MAX_OPEN_PER_USER):
            held.enter_context(web.send(request("/download/alice", method="GET"))).recv(9)
        status, said = web.answer(request("/download/alice", method="GET"))
        assert status == 429 and "Wait until one finishes" in said
        other = held.enter_context(web.send(request("/download/bob", method="GET")))
        assert other.recv(12) == b"HTTP/1.1 200"


HEAD = request("/healthz", "X-Pad: ", method="GET").removesuffix(b"\r\n\r\n")
BODY = request("/api/v1/ratings/", CHUNKED)
ENDLESS = {
    "headers": (request("/healthz", method="GET").removesuffix(b"\r\n"), b"X-Pad: x\r\n"),
    "one header": (HEAD, b"x" * 60_000),
    "address": (b"GET /", b"x" * 60_000),
    "chunk extension": (BODY + b"2;", b"x" * 60_000),
    "trailers": (BODY + b"2\r\n{}\r\n0\r\n", b"X-Pad: x\r\n"),
}


@pytest.mark.parametrize("part", ENDLESS)
def test_endless_data_outside_the_body_is_cut_off(web, part):
    begin, unit = ENDLESS[part]
    with web.send(begin) as connection, pytest.raises(OSError, match=r"reset|pipe"):
        for _ in range(40 * MB // len(unit)):  # more than the buffers of both sides can hold
            connection.sendall(unit)


@pytest.mark.parametrize("size", [60_000, 100_000])
def test_request_with_too_large_headers_is_refused_with_a_message(web, size):
    status, words = web.answer(
        request("/healthz", "X-Pad: " + "x" * size, "Connection: close", method="GET")
    )
    assert status == (200 if size < http_protocol.MAX_HEAD_BYTES else 431)
    assert (status == 200) or "can have 65,536 bytes" in words


def test_body_in_chunks_of_one_byte_is_read(web):
    body = b"1\r\nx\r\n" * 30_000 + b"0\r\n\r\n"
    status, words = web.answer(request("/healthz", CHUNKED, "Connection: close") + body)
    assert status == 403, words  # Django's response to a form without its CSRF token
