"""Pages and REST in a fixed set of threads, each with a database connection that it keeps from request to request.

Django's own ASGI handler gives every request a thread of its own, and with it a new connection to the database, whose password
handshake costs more than most of our requests; and it goes back and forth between thread and event loop for every middleware.
Here a request is one call of the WSGI handler in one thread. The event loop reads its body before (rftweb.bodies) and sends its
answer afterwards (rftweb.answers), so that no slow client holds a thread.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from rftweb import bodies
from rftweb.answers import Downloads, NotTaken, begin, send_whole

THREADS = 8
Receive, Send = Callable[[], Awaitable[dict]], Callable[[dict], Awaitable[None]]


class InThreads:
    """An ASGI application for HTTP around a WSGI one, which finds the connection's scope in its environment, under `scope_as`."""

    def __init__(self, application: Callable, scope_as: str, threads: int = THREADS) -> None:
        self.application = application
        self.scope_as = scope_as
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix="web")
        self.bodies = bodies.Bodies(self.pool)
        self.downloads = Downloads()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        with SpooledTemporaryFile(max_size=bodies.IN_MEMORY) as body:
            try:
                length = await self.bodies.read(scope, receive, body, environ_of(scope, BytesIO(), 0))
                environ = {**environ_of(scope, body, length), self.scope_as: scope}
                await self._answer(environ, receive, send)
            except bodies.Refused as refusal:
                await bodies.refuse(refusal, scope, receive, send)
            except (bodies.ClientLeft, NotTaken):
                return  # the server closes what was not answered to its end

    async def _answer(self, environ: dict[str, Any], receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(self.pool, begin, self.application, environ)
        if answer.rest is not None and environ["REQUEST_METHOD"] == "HEAD":
            await self.downloads.send_head(answer, send)
        elif answer.rest is None:
            await send_whole(answer, send)
        else:
            await self.downloads.send(answer, receive, send)


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


def _bytes_of(text: str) -> str:
    """Text as the latin-1 spelling of its UTF-8 bytes, which is how WSGI passes it."""
    return text.encode("utf-8").decode("latin-1")
