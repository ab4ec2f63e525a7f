"""The sockets `/ws` and `/mcp`: a connection is a session, and what it holds ends with it.

The server pings (uvicorn, every 20 s), so a client that is gone is noticed; one that is there and says nothing is sent away after
SILENCE_S. Who may not come in is refused before the handshake, with a status; who comes when there is no room is told so in a
message, as OpenEnv's servers do, and the socket is closed.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any, Protocol

import structlog
from django.db import InterfaceError, OperationalError

from apps.accounts.later import Receive, Send
from apps.environments.models import PlaySession
from apps.environments.openenv import sessions
from apps.environments.openenv.access import Guest, Refused, guest_of, why_not_any_more
from apps.environments.openenv.frames import CAPACITY_REACHED, INVALID_JSON, SESSION_ERROR, Frames
from apps.environments.openenv.plays import Play, in_a_thread, why_not_served
from apps.environments.openenv.rpc import Rpc

log = structlog.get_logger(__name__)
DEAD_DATABASE = (OperationalError, InterfaceError)
SILENCE_S = 600.0
SEND_S = 20.0  # who takes nothing for so long is left
LONGEST_MESSAGE = 1 << 20  # characters
MOST_AHEAD = 16  # messages that wait for those before them
MOST_SESSIONS = 64  # in this process: each may have a process of its own
CLOSED_BY_CLIENT, CONNECTION_LOST = "its client closed it", "the connection was lost"
GOODBYES = (1000, 1001, 1005)  # with which a client closes
TOO_LONG, TOO_MANY, FAULT, GONE = 1009, 1008, 1011, 0


class Speaker(Protocol):
    """Answers the messages of one session; None ends it."""

    async def answer(self, text: str) -> str | None: ...

    @staticmethod
    def refusal(code: str, message: str, **more: object) -> str: ...


class Left(Exception):
    """The session ends: `reason` is kept, `code` closes the socket (GONE: it is closed), and `told` tells the client before."""

    def __init__(self, reason: str, code: int = 1000, told: str = "") -> None:
        self.code, self.told = code, told
        super().__init__(reason)


class SessionSocket:
    """An ASGI application; `Frames` speaks on `/ws`, `Rpc` on `/mcp`."""

    open_here = 0

    def __init__(self, way: str, speaks: Callable[[Play, str], Speaker]) -> None:
        self.way, self.speaks = way, speaks

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        await receive()  # the wish to connect
        named = scope["url_route"]["kwargs"]
        try:
            guest = await in_a_thread(guest_of, _authorization(scope), named.get("project"), named["name"])
        except Refused as why:
            await _deny(scope, send, why.status, str(why))
            return
        except DEAD_DATABASE:
            await _deny(scope, send, 503, "The database is away; try again.")
            return
        await send({"type": "websocket.accept"})
        SessionSocket.open_here += 1
        try:
            await Connection(guest, receive, send).hold(self.way, self.speaks)
        finally:
            SessionSocket.open_here -= 1


class Connection:
    """One accepted socket."""

    def __init__(self, guest: Guest, receive: Receive, send: Send) -> None:
        self.guest, self.receive, self.send = guest, receive, send
        self.is_heard = False  # since the session was last kept
        self.ahead: asyncio.Queue[str | None] = asyncio.Queue()

    async def hold(self, way: str, speaks: Callable[[Play, str], Speaker]) -> None:
        """Until it ends, on whichever side."""
        try:
            session = await self._begun(way, speaks)
        except Left as end:
            await self._say_goodbye(end)
            return
        play = Play(self.guest.environment, session)
        end = Left(CONNECTION_LOST, GONE)
        try:
            end = await self._served(speaks(play, str(session.pk)), session)
        finally:
            await asyncio.shield(_given_back(play, session, str(end)))
        await self._say_goodbye(end)

    async def _begun(self, way: str, speaks: Callable[[Play, str], Speaker]) -> PlaySession:
        """Raises Left."""
        environment = self.guest.environment
        if why := why_not_served(environment):
            raise Left(why, told=speaks.refusal(SESSION_ERROR, why))
        try:
            if SessionSocket.open_here > MOST_SESSIONS:
                raise sessions.NoRoom(MOST_SESSIONS, MOST_SESSIONS)
            return await in_a_thread(sessions.begin, environment, self.guest.token.user, way)
        except sessions.NoRoom as full:
            told = speaks.refusal(CAPACITY_REACHED, str(full), active_sessions=full.active, max_sessions=full.most)
            raise Left(str(full), told=told) from None
        except DEAD_DATABASE:
            away = "The database is away; try again."
            raise Left(away, FAULT, speaks.refusal(SESSION_ERROR, away)) from None

    async def _served(self, speaker: Speaker, session: PlaySession) -> Left:
        """Why it ended."""
        work = [asyncio.ensure_future(one) for one in (self._listen(speaker), self._answer(speaker), self._keep(speaker, session))]
        try:
            done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            return _end_of(done.pop(), speaker)
        finally:
            for one in work:
                one.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    async def _listen(self, speaker: Speaker) -> None:
        """Raises Left when the client goes, or says too much."""
        while True:
            message = await self.receive()
            if message["type"] == "websocket.disconnect":
                raise Left(CLOSED_BY_CLIENT if message.get("code") in GOODBYES else CONNECTION_LOST, GONE)
            text = message.get("text")
            if len(text or message.get("bytes") or "") > LONGEST_MESSAGE:
                raise Left(
                    "a message was too long", TOO_LONG, speaker.refusal(SESSION_ERROR, f"at most {LONGEST_MESSAGE} characters")
                )
            if self.ahead.qsize() >= MOST_AHEAD:
                raise Left("it did not wait for answers", TOO_MANY, speaker.refusal(SESSION_ERROR, "wait for the answer"))
            self.ahead.put_nowait(text)

    async def _answer(self, speaker: Speaker) -> None:
        """One message after the other. Raises Left."""
        while True:
            try:
                async with asyncio.timeout(SILENCE_S):
                    text = await self.ahead.get()
            except TimeoutError:
                silent = f"its client said nothing for {SILENCE_S:g} s"
                raise Left(silent, told=speaker.refusal(SESSION_ERROR, silent)) from None
            self.is_heard = True
            answer = speaker.refusal(INVALID_JSON, "send text, not bytes") if text is None else await speaker.answer(text)
            if answer is None:
                raise Left(CLOSED_BY_CLIENT)
            await self._tell(answer)

    async def _keep(self, speaker: Speaker, session: PlaySession) -> None:
        """Say that the connection lives, and see that it may. Raises Left."""
        while True:
            await asyncio.sleep(sessions.KEPT_EVERY_S)
            is_heard, self.is_heard = self.is_heard, False
            try:
                why = await in_a_thread(_kept, self.guest, session, is_heard)
            except DEAD_DATABASE as error:
                log.warning("session_not_kept", session=session.pk, error=str(error).strip())
                continue
            if why:
                raise Left(why, told=speaker.refusal(SESSION_ERROR, why))

    async def _tell(self, text: str) -> None:
        """Raises Left when the client does not take it."""
        try:
            async with asyncio.timeout(SEND_S):
                await self.send({"type": "websocket.send", "text": text})
        except (TimeoutError, OSError):
            raise Left("its client did not take an answer") from None

    async def _say_goodbye(self, end: Left) -> None:
        if end.code == GONE:
            return
        try:
            async with asyncio.timeout(SEND_S):
                if end.told:
                    await self.send({"type": "websocket.send", "text": end.told})
                await self.send({"type": "websocket.close", "code": end.code, "reason": str(end)[:120]})
        except (TimeoutError, OSError) as error:
            log.debug("socket_not_closed", error=str(error))


def _end_of(work: asyncio.Task, speaker: Speaker) -> Left:
    """Why this part of the connection's work ended."""
    error = work.exception()
    if isinstance(error, Left):
        return error
    if isinstance(error, DEAD_DATABASE):
        away = "The database is away; try again."
        return Left(away, FAULT, speaker.refusal(SESSION_ERROR, away))
    log.error("session_failed", exc_info=error)
    return Left("a fault of ours", FAULT, speaker.refusal(SESSION_ERROR, "A fault of ours; the log has it."))


async def _given_back(play: Play, session: PlaySession, reason: str) -> None:
    """What the database does not hear now, the sweep finds: the session is kept no longer."""
    try:
        await play.close(reason)
        await in_a_thread(sessions.close, session.pk, reason)
    except DEAD_DATABASE as error:
        log.warning("session_not_closed", session=session.pk, error=str(error).strip())


def _kept(guest: Guest, session: PlaySession, is_heard: bool) -> str:
    """Why it has to end; empty when it goes on."""
    if not sessions.keep(session.pk, is_heard):
        return sessions.LOST
    return why_not_any_more(guest)


def _authorization(scope: dict[str, Any]) -> bytes:
    found = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
    return found[0] if len(found) == 1 else b""


async def _deny(scope: dict[str, Any], send: Send, status: int, detail: str) -> None:
    """Refuse the handshake; where the server cannot say why, it is a plain 403."""
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    body = json.dumps({"detail": detail}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})


frames, calls = SessionSocket("ws", Frames), SessionSocket("mcp", Rpc)
