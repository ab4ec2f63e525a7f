"""Pages and REST in a fixed set of threads, each with a database connection that it keeps from request to request.

Django's own ASGI handler gives every request a thread of its own, and with it a new connection to the database, whose password
handshake costs more than most of our requests; and it goes back and forth between thread and event loop for every middleware.
Here a request is one call of the WSGI handler in one thread, from its first middleware to its last byte.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from tempfile import SpooledTemporaryFile
from typing import IO, Any

THREADS = 8
BODY_IN_MEMORY = 2**20  # bytes; longer ones go through a file
SEND_S = 20.0  # who takes nothing of an answer for so long is left: few such would hold all threads
Receive, Send = Callable[[], Awaitable[dict]], Callable[[dict], Awaitable[None]]


class NotTaken(Exception):
    """The client does not read."""


class InThreads:
    """An ASGI application for HTTP around a WSGI one, which finds the connection's scope in its environment, under `scope_as`."""

    def __init__(self, application: Callable, scope_as: str, threads: int = THREADS) -> None:
        self.application, self.scope_as = application, scope_as
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix="web")

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        with SpooledTemporaryFile(max_size=BODY_IN_MEMORY) as body:
            length = await _take(receive, body)
            if length is None:
                return  # the client went away while it was sending
            loop = asyncio.get_running_loop()
            environ = {**environ_of(scope, body, length), self.scope_as: scope}
            await loop.run_in_executor(self.pool, _answer, self.application, environ, loop, send)


def environ_of(scope: dict[str, Any], body: IO[bytes], length: int) -> dict[str, Any]:
    """What PEP 3333 asks for. Headers with underscores are left out: they would pass for those with hyphens."""
    host, port = scope.get("server") or ("localhost", 80)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"], "PATH_INFO": _bytes_of(scope["path"]),
        "SCRIPT_NAME": _bytes_of(scope.get("root_path", "")),
        "QUERY_STRING": scope["query_string"].decode("latin-1"), "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "SERVER_NAME": host, "SERVER_PORT": str(port or 80), "REMOTE_ADDR": (scope.get("client") or ("", 0))[0],
        "wsgi.version": (1, 0), "wsgi.url_scheme": scope.get("scheme", "http"), "wsgi.input": body, "wsgi.errors": sys.stderr,
        "wsgi.multithread": True, "wsgi.multiprocess": True, "wsgi.run_once": False,
    }  # fmt: skip
    for raw, value in scope["headers"]:
        name, text = raw.decode("latin-1"), value.decode("latin-1")
        if "_" in name or name in ("content-length", "transfer-encoding"):
            continue
        key = "CONTENT_TYPE" if name == "content-type" else f"HTTP_{name.upper().replace('-', '_')}"
        between = "; " if name == "cookie" else ","
        environ[key] = f"{environ[key]}{between}{text}" if key in environ else text
    environ["CONTENT_LENGTH"] = str(length)
    return environ


async def _take(receive: Receive, body: IO[bytes]) -> int | None:
    """Write what the client sends into `body`; returns its length, None when the client left before the end."""
    length = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        length += body.write(message.get("body", b""))
        if not message.get("more_body"):
            body.seek(0)
            return length


def _answer(application: Callable, environ: dict[str, Any], loop: asyncio.AbstractEventLoop, send: Send) -> None:
    """The whole request, in this thread; each part of the answer waits until the client takes it."""
    head: dict[str, Any] = {}

    def start(status: str, headers: list[tuple[str, str]], _error: object = None) -> None:
        head.update(
            type="http.response.start", status=int(status.partition(" ")[0]),
            headers=[(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers],
        )  # fmt: skip

    def tell(messages: list[dict]) -> None:
        sending = asyncio.run_coroutine_threadsafe(_send_all(send, messages), loop)
        try:
            sending.result(SEND_S)
        except TimeoutError:
            sending.cancel()
            raise NotTaken from None

    parts = application(environ, start)
    try:
        told, held = [head], b""  # one part is held back: head and end of most answers are one message to the loop
        for part in parts:
            if held:
                tell([*told, _body(held, is_last=False)])
                told = []
            held = part
        tell([*told, _body(held, is_last=True)])
    except NotTaken:
        return  # the server closes what was not answered to its end
    finally:
        if hasattr(parts, "close"):
            parts.close()


def _body(part: bytes, is_last: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": part, "more_body": not is_last}


async def _send_all(send: Send, messages: list[dict]) -> None:
    for message in messages:
        await send(message)


def _bytes_of(text: str) -> str:
    """Text as the latin-1 spelling of its UTF-8 bytes, which is how WSGI passes it."""
    return text.encode("utf-8").decode("latin-1")
