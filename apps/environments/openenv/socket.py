"""The sockets `/ws` and `/mcp`: a connection is a session, and its resources end with it.

The server pings (uvicorn, every 20 s), so a lost connection is noticed. A client that sends nothing
is disconnected after SILENCE_S. A client without permission is refused before the handshake, with a
status. If there is no room, the client gets a message, as from OpenEnv's servers, and the socket is
closed.
"""

import asyncio
import json
from typing import Any, Protocol

import structlog
from django.db import InterfaceError, OperationalError

from apps.accounts.async_response import Receive, Send
from apps.environments.models import PlaySession
from apps.environments.openenv import sessions
from apps.environments.openenv.access import (
    OpenEnvClient,
    Refused,
    identify_guest,
    why_not_any_more,
)
from apps.environments.openenv.frames import CAPACITY_REACHED, INVALID_JSON, SESSION_ERROR, Frames
from apps.environments.openenv.plays import Play, in_a_thread, why_not_served
from apps.environments.openenv.rpc import Rpc

log = structlog.get_logger(__name__)
DEAD_DATABASE = (OperationalError, InterfaceError)
SILENCE_S = 600.0
SEND_S = 20.0  # a client that receives nothing for this long is disconnected
MAX_MESSAGE_LENGTH = 1 << 20  # characters
MAX_QUEUED_MESSAGES = 16  # messages that wait for earlier ones
MAX_SESSIONS = 64  # connections of this process; each may start a process of its own
CLOSED_BY_CLIENT = "its client closed it"
CONNECTION_LOST = "the connection was lost"
GOODBYES = (1000, 1001, 1005)  # close codes of an orderly end
TOO_LONG = 1009
TOO_MANY = 1008
FAULT = 1011
GONE = 0


class MessageHandler(Protocol):
    """A handler of the messages of one session; an answer of None ends it."""

    def __init__(self, play: Play, session_id: str) -> None: ...

    async def answer(self, text: str) -> str | None: ...

    @staticmethod
    def refusal(code: str, message: str, **more: object) -> str: ...


class SessionEnded(Exception):
    """End of the session: `reason` is stored, `code` closes the socket, `told` is sent before.

    The code GONE means that the socket is closed already.
    """

    def __init__(self, reason: str, code: int = 1000, last_message: str = "") -> None:
        self.code = code
        self.last_message = last_message
        super().__init__(reason)


class SessionSocket:
    """An ASGI application; `Frames` handles `/ws`, `Rpc` handles `/mcp`."""

    open_here = 0

    def __init__(self, way: str, speaks: type[MessageHandler]) -> None:
        self.way = way
        self.speaks = speaks

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        await receive()  # the connection request
        route_arguments = scope["url_route"]["kwargs"]
        try:
            guest = await in_a_thread(
                identify_guest,
                _authorization(scope),
                route_arguments.get("project"),
                route_arguments["name"],
            )
        except Refused as why:
            await _deny(scope, send, why.status, str(why))
            return
        except DEAD_DATABASE:
            await _deny(scope, send, 503, "The database is not available; try again.")
            return
        await send({"type": "websocket.accept"})
        SessionSocket.open_here += 1
        try:
            await Connection(guest, receive, send).hold(self.way, self.speaks)
        finally:
            SessionSocket.open_here -= 1


class Connection:
    """One accepted socket."""

    def __init__(self, guest: OpenEnvClient, receive: Receive, send: Send) -> None:
        self.guest = guest
        self.receive = receive
        self.send = send
        self.is_heard = False  # whether the client was heard since the last renewal
        self.ahead: asyncio.Queue[str | None] = asyncio.Queue()

    async def hold(self, way: str, speaks: type[MessageHandler]) -> None:
        """Serve the session until either side ends it."""
        try:
            session = await self._begin_session(way, speaks)
        except SessionEnded as end:
            await self._send_close(end)
            return
        play = Play(self.guest.environment, session)
        end_reason = SessionEnded(CONNECTION_LOST, GONE)
        try:
            end_reason = await self._serve_messages(speaks(play, str(session.pk)), session)
        finally:
            await asyncio.shield(_close_session(play, session, str(end_reason)))
        await self._send_close(end_reason)

    async def _begin_session(self, way: str, speaks: type[MessageHandler]) -> PlaySession:
        """Begin the session. Raises SessionEnded."""
        environment = self.guest.environment
        if why := why_not_served(environment):
            raise SessionEnded(why, last_message=speaks.refusal(SESSION_ERROR, why))
        try:
            if SessionSocket.open_here > MAX_SESSIONS:
                raise sessions.NoRoom(MAX_SESSIONS, MAX_SESSIONS)
            return await in_a_thread(
                sessions.begin_session, environment, self.guest.token.user, way
            )
        except sessions.NoRoom as full:
            refusal = speaks.refusal(
                CAPACITY_REACHED, str(full), active_sessions=full.active, max_sessions=full.limit
            )
            raise SessionEnded(str(full), last_message=refusal) from None
        except DEAD_DATABASE:
            message = "The database is not available; try again."
            raise SessionEnded(message, FAULT, speaks.refusal(SESSION_ERROR, message)) from None

    async def _serve_messages(self, speaker: MessageHandler, session: PlaySession) -> SessionEnded:
        """Serve messages until the session ends; return why it ended."""
        work = [
            asyncio.ensure_future(task)
            for task in (self._listen(speaker), self._answer(speaker), self._keep(speaker, session))
        ]
        try:
            done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            return _end_of(done.pop(), speaker)
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    async def _listen(self, speaker: MessageHandler) -> None:
        """Receive messages. Raises SessionEnded when the client leaves, or sends too much."""
        while True:
            message = await self.receive()
            if message["type"] == "websocket.disconnect":
                raise SessionEnded(
                    CLOSED_BY_CLIENT if message.get("code") in GOODBYES else CONNECTION_LOST, GONE
                )
            text = message.get("text")
            if len(text or message.get("bytes") or "") > MAX_MESSAGE_LENGTH:
                raise SessionEnded(
                    "a message was too long",
                    TOO_LONG,
                    speaker.refusal(SESSION_ERROR, f"at most {MAX_MESSAGE_LENGTH} characters"),
                )
            if self.ahead.qsize() >= MAX_QUEUED_MESSAGES:
                raise SessionEnded(
                    "it did not wait for responses",
                    TOO_MANY,
                    speaker.refusal(SESSION_ERROR, "wait for the response"),
                )
            self.ahead.put_nowait(text)

    async def _answer(self, speaker: MessageHandler) -> None:
        """Answer one message after the other. Raises SessionEnded."""
        while True:
            try:
                async with asyncio.timeout(SILENCE_S):
                    text = await self.ahead.get()
            except TimeoutError:
                silent = f"its client sent nothing for {SILENCE_S:g} s"
                raise SessionEnded(
                    silent, last_message=speaker.refusal(SESSION_ERROR, silent)
                ) from None
            self.is_heard = True
            answer = (
                speaker.refusal(INVALID_JSON, "send text, not bytes")
                if text is None
                else await speaker.answer(text)
            )
            if answer is None:
                raise SessionEnded(CLOSED_BY_CLIENT)
            await self._send(answer)

    async def _keep(self, speaker: MessageHandler, session: PlaySession) -> None:
        """Record regularly that the connection is alive, and check the permission.

        Raises SessionEnded.
        """
        while True:
            await asyncio.sleep(sessions.KEPT_EVERY_S)
            is_heard = self.is_heard
            self.is_heard = False
            try:
                why = await in_a_thread(_why_ended, self.guest, session, is_heard)
            except DEAD_DATABASE as error:
                log.warning("session_not_renewed", session=session.pk, error=str(error).strip())
                continue
            if why:
                raise SessionEnded(why, last_message=speaker.refusal(SESSION_ERROR, why))

    async def _send(self, text: str) -> None:
        """Send a message. Raises SessionEnded when the client does not receive it."""
        try:
            async with asyncio.timeout(SEND_S):
                await self.send({"type": "websocket.send", "text": text})
        except (TimeoutError, OSError):
            raise SessionEnded("its client did not read a response") from None

    async def _send_close(self, end: SessionEnded) -> None:
        if end.code == GONE:
            return
        try:
            async with asyncio.timeout(SEND_S):
                if end.last_message:
                    await self.send({"type": "websocket.send", "text": end.last_message})
                await self.send(
                    {"type": "websocket.close", "code": end.code, "reason": str(end)[:120]}
                )
        except (TimeoutError, OSError) as error:
            log.debug("socket_not_closed", error=str(error))


def _end_of(work: asyncio.Task, speaker: MessageHandler) -> SessionEnded:
    """Return why this task of the connection ended."""
    error = work.exception()
    if isinstance(error, SessionEnded):
        return error
    if isinstance(error, DEAD_DATABASE):
        message = "The database is not available; try again."
        return SessionEnded(message, FAULT, speaker.refusal(SESSION_ERROR, message))
    log.error("session_failed", exc_info=error)
    return SessionEnded(
        "an internal error",
        FAULT,
        speaker.refusal(SESSION_ERROR, "An internal error; see the log."),
    )


async def _close_session(play: Play, session: PlaySession, reason: str) -> None:
    """Close the session and its play; after a database error the sweep closes it later."""
    try:
        await play.close(reason)
        await in_a_thread(sessions.close_session, session.pk, reason)
    except DEAD_DATABASE as error:
        log.warning("session_not_closed", session=session.pk, error=str(error).strip())


def _why_ended(guest: OpenEnvClient, session: PlaySession, is_heard: bool) -> str:
    """Return why the session must end; empty when it may continue."""
    if not sessions.keep_session(session.pk, is_heard):
        return sessions.LOST
    return why_not_any_more(guest)


def _authorization(scope: dict[str, Any]) -> bytes:
    values = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
    return values[0] if len(values) == 1 else b""


async def _deny(scope: dict[str, Any], send: Send, status: int, detail: str) -> None:
    """Refuse the handshake with a reason, or a plain 403 where the server supports none."""
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    body = json.dumps({"detail": detail}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})


frames = SessionSocket("ws", Frames)
calls = SessionSocket("mcp", Rpc)
