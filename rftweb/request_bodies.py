"""Read a request's body, or refuse it before any of it is stored.

Checked first are the host, the URL, its limit, and for more than a few bytes the authentication. A
body must keep arriving. Only large bodies that passed the checks are written to disk.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib import import_module
from io import BytesIO
from typing import IO, Any

from django.conf import settings
from django.contrib.auth import get_user
from django.core.handlers.wsgi import WSGIRequest
from django.db import Error, close_old_connections
from django.http.request import split_domain_port, validate_host
from django.urls import Resolver404, resolve
from rest_framework.authentication import SessionAuthentication
from rest_framework.exceptions import APIException
from rest_framework.request import Request

from apps.accounts.body_limits import SMALL, largest_body
from apps.accounts.problems import MEDIA_TYPE, problem_document
from apps.environments.agents.refusals import Refused as RefusedAgent

IN_MEMORY = 1024 * 1024  # bytes; longer bodies go through a file
IDLE_S = 15.0  # a body that stalls for so long is refused
GRACE_S = 30.0  # before SLOWEST counts
SLOWEST = 16 * 1024  # bytes per second, on average
MAX_LARGE_BODIES = 8  # bodies written to files at the same time, in one process
# For so long, and so many bytes, a refused body is read, so that its sender sees the response.
LINGER_S = 2.0
LINGER_BYTES = 4 * 1024 * 1024
WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
Receive = Callable[[], Awaitable[dict]]
Send = Callable[[dict], Awaitable[None]]


class ClientLeft(Exception):
    """The client closed the connection before its request was complete."""


class Refused(Exception):
    """The body is not accepted; the message says why and what would be."""

    def __init__(self, status: HTTPStatus, kind: str, words: str, **headers: str) -> None:
        super().__init__(words)
        self.status = status
        self.kind = kind
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


@dataclass
class ArrivingBody:
    """A body that is arriving."""

    limit: int
    into: IO[bytes]
    is_known: bool = True
    length: int = 0
    begun: float = field(default_factory=time.monotonic)

    async def read(self, receive: Receive) -> int:
        """Write the body into the file and return its length. Raises Refused, ClientLeft."""
        while True:
            try:
                async with asyncio.timeout(IDLE_S):
                    message = await receive()
            except TimeoutError:
                raise too_slow(f"no data for {IDLE_S:.0f} seconds") from None
            if message["type"] == "http.disconnect":
                raise ClientLeft
            self._keep(message.get("body", b""))
            if not message.get("more_body"):
                self.into.seek(0)
                return self.length

    def _keep(self, part: bytes) -> None:
        self.length += len(part)
        if self.length > self.limit:
            raise too_large(self.limit) if self.is_known else refuse_unknown()
        if time.monotonic() - self.begun > GRACE_S + self.length / SLOWEST:
            raise too_slow(f"less than {SLOWEST:,} bytes per second")
        self.into.write(part)


class BodyPolicy:
    """The decision about the bodies of one process's requests.

    `large_open` counts those that are being written to files.
    """

    def __init__(self, pool: Executor) -> None:
        self.pool = pool
        self.large_open = 0

    async def read(
        self, scope: dict[str, Any], receive: Receive, into: IO[bytes], environ: dict
    ) -> int:
        """Write the request's body into the file and return its length. Raise Refused, ClientLeft.

        `environ` is the WSGI environment of the request, without its body.
        """
        declared = declared_length(scope)
        if declared == 0:
            return await ArrivingBody(SMALL, into).read(receive)
        _require_host(environ)
        limit = find_body_limit(scope["method"], scope["path"])
        if declared is None and limit > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            raise Refused(
                HTTPStatus.LENGTH_REQUIRED,
                "length_required",
                ("Send the header Content-Length with a file."),
            )
        if declared is not None and declared > limit:
            raise too_large(limit)
        is_small = limit <= SMALL or (declared is not None and declared <= SMALL)
        is_known = is_small or await self._is_known(environ)
        if declared is not None and not is_known:
            raise refuse_unknown()
        arrival = ArrivingBody(limit if is_known else min(limit, SMALL), into, is_known)
        if declared is None or declared <= IN_MEMORY:
            return await arrival.read(receive)
        return await self._read_large(arrival, receive)

    async def _read_large(self, arrival: ArrivingBody, receive: Receive) -> int:
        if self.large_open >= MAX_LARGE_BODIES:
            words = f"The server is receiving {MAX_LARGE_BODIES} large requests. Try again in a few seconds."
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "busy", words, retry_after="5")
        self.large_open += 1
        try:
            return await arrival.read(receive)
        finally:
            self.large_open -= 1

    async def _is_known(self, environ: dict) -> bool:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self.pool, is_authenticated, environ)
        except Error:
            words = "The database is not responding. Try again."
            raise Refused(
                HTTPStatus.SERVICE_UNAVAILABLE, "database_unavailable", words, retry_after="5"
            ) from None


def declared_length(scope: dict[str, Any]) -> int | None:
    """Return the Content-Length, 0 if there is no body, or None if the body comes in chunks."""
    headers = dict(scope["headers"])
    if b"transfer-encoding" in headers:
        return None
    length = headers.get(b"content-length", b"0")
    return int(length) if length.isdigit() else None


def find_body_limit(method: str, path: str) -> int:
    """Return the largest body in bytes that the URL accepts from an authenticated client."""
    if method in WITHOUT_BODY:
        return SMALL
    try:
        return largest_body(resolve(path).func)
    except Resolver404:
        return SMALL


def is_authenticated(environ: dict) -> bool:
    """Return whether the request has a valid session or token of the kind that its view accepts."""
    close_old_connections()
    request = WSGIRequest({**environ, "wsgi.input": BytesIO(), "CONTENT_LENGTH": "0"})
    store = import_module(settings.SESSION_ENGINE).SessionStore
    request.session = store(request.COOKIES.get(settings.SESSION_COOKIE_NAME))
    if get_user(request).is_authenticated:
        return True
    view = getattr(resolve(request.path_info).func, "cls", None)
    kinds = [
        kind
        for kind in getattr(view, "authentication_classes", ())
        if kind is not SessionAuthentication
    ]
    try:
        return any(kind().authenticate(Request(request)) for kind in kinds)
    except APIException:  # the view reports the error, once the body is small enough
        return False
    except RefusedAgent as refusal:  # with another status than 401 the view reports the error
        return refusal.status != HTTPStatus.UNAUTHORIZED


def too_large(limit: int) -> Refused:
    words = f"The body is larger than {limit} bytes."
    return Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", words)


def refuse_unknown() -> Refused:
    words = f"Log in, or send a valid token. Without one, the limit is {SMALL} bytes."
    return Refused(HTTPStatus.UNAUTHORIZED, "not_authenticated", words, www_authenticate="Bearer")


def too_slow(reason: str) -> Refused:
    return Refused(
        HTTPStatus.REQUEST_TIMEOUT, "too_slow", (f"The request body arrived too slowly: {reason}.")
    )


def _require_host(environ: dict) -> None:
    host = environ.get("HTTP_HOST", "")
    domain, _ = split_domain_port(host)
    if not domain or not validate_host(domain, settings.ALLOWED_HOSTS):
        words = "Unknown host name. Add it to RFTWEB_HOSTS."
        raise Refused(HTTPStatus.BAD_REQUEST, "unknown_host", words)


async def send_refusal(
    refusal: Refused, scope: dict[str, Any], receive: Receive, send: Send
) -> None:
    """Send the refusal and close the connection, whatever of the body is still arriving."""
    media_type, body = _document(refusal, scope["path"])
    fields = {
        "content-type": media_type,
        "content-length": str(len(body)),
        "connection": "close",
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
        **refusal.headers,
    }
    headers = [(name.encode(), value.encode()) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": int(refusal.status), "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    await _linger(receive)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _document(refusal: Refused, path: str) -> tuple[str, bytes]:
    words = str(refusal)
    if path.startswith("/v1/"):  # in the format of OpenAI's errors
        error = {"message": words, "type": "invalid_request_error", "code": refusal.kind}
        return "application/json", json.dumps({"error": error}).encode()
    if path.startswith(("/api/", "/openenv/")):
        return MEDIA_TYPE, json.dumps(
            problem_document(refusal.status, refusal.kind, words)
        ).encode()
    return "text/plain; charset=utf-8", f"{words}\n".encode()


async def _linger(receive: Receive) -> None:
    """Read on for a moment: closing a connection with unread bytes also loses the response."""
    length = 0
    try:
        async with asyncio.timeout(LINGER_S):
            while length < LINGER_BYTES:
                message = await receive()
                length += len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    return
    except TimeoutError:
        return
