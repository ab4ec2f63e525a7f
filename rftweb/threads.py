"""Pages and REST in a fixed set of threads, each with a persistent database connection.

Django's own ASGI handler gives every request a thread of its own, and with it a new connection to
the database, whose password handshake costs more than most of our requests; and it switches between
thread and event loop for every middleware. Here a request is one call of the WSGI handler in one
thread. The event loop reads its body before (rftweb.request_bodies) and sends its response
afterwards (rftweb.answers), so that no slow client holds a thread.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from rftweb import request_bodies
from rftweb.answers import Downloads, NotTaken, begin_answer, send_whole

THREADS = 8
Receive = Callable[[], Awaitable[dict]]
Send = Callable[[dict], Awaitable[None]]


class InThreads:
    """An ASGI application for HTTP around a WSGI one.

    The WSGI environment contains the ASGI scope under `scope_as`.
    """

    def __init__(self, application: Callable, scope_as: str, threads: int = THREADS) -> None:
        self.application = application
        self.scope_as = scope_as
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix="web")
        self.bodies = request_bodies.BodyPolicy(self.pool)
        self.downloads = Downloads()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        with SpooledTemporaryFile(max_size=request_bodies.IN_MEMORY) as body:
            try:
                length = await self.bodies.read(
                    scope, receive, body, build_environ(scope, BytesIO(), 0)
                )
                environ = {**build_environ(scope, body, length), self.scope_as: scope}
                await self._answer(environ, receive, send)
            except request_bodies.Refused as refusal:
                await request_bodies.send_refusal(refusal, scope, receive, send)
            except (request_bodies.ClientLeft, NotTaken):
                return  # the server closes a connection with an incomplete response

    async def _answer(self, environ: dict[str, Any], receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(self.pool, begin_answer, self.application, environ)
        if answer.rest is not None and environ["REQUEST_METHOD"] == "HEAD":
            await self.downloads.send_head(answer, send)
        elif answer.rest is None:
            await send_whole(answer, send)
        else:
            await self.downloads.send(answer, receive, send)


def build_environ(scope: dict[str, Any], body: IO[bytes], length: int) -> dict[str, Any]:
    """Return the WSGI environment (PEP 3333) of an ASGI scope.

    Headers with underscores are left out: they could pass for those with hyphens.
    """
    host, port = scope.get("server") or ("localhost", 80)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"],
        "PATH_INFO": _bytes_of(scope["path"]),
        "SCRIPT_NAME": _bytes_of(scope.get("root_path", "")),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "SERVER_NAME": host,
        "SERVER_PORT": str(port or 80),
        "REMOTE_ADDR": (scope.get("client") or ("", 0))[0],
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": body,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1")
        text = value.decode("latin-1")
        if "_" in name or name in ("content-length", "transfer-encoding"):
            continue
        key = "CONTENT_TYPE" if name == "content-type" else f"HTTP_{name.upper().replace('-', '_')}"
        between = "; " if name == "cookie" else ","
        environ[key] = f"{environ[key]}{between}{text}" if key in environ else text
    environ["CONTENT_LENGTH"] = str(length)
    return environ


def _bytes_of(text: str) -> str:
    """Return text as the latin-1 decoding of its UTF-8 bytes, as WSGI passes it."""
    return text.encode("utf-8").decode("latin-1")
