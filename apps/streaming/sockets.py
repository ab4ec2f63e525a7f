"""What every socket obeys: who may open it, how many of them, for how long, and what ends it."""

import asyncio
import json
from collections import Counter
from importlib import import_module
from urllib.parse import parse_qs

import structlog
from channels.auth import get_user
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase

from apps.accounts.models import User
from apps.streaming.watcher import TooSlow

log = structlog.get_logger(__name__)

# Close codes: below 4000 the protocol's own, from there ours.
NORMAL, UNSUPPORTED, TOO_CHATTY, TOO_BIG, BROKEN, RESTARTING = 1000, 1003, 1008, 1009, 1011, 1012
TOO_SLOW, NOT_SIGNED_IN, NOT_YOURS, MALFORMED, TOO_MANY = 4008, 4401, 4403, 4404, 4408
SOCKETS_PER_USER = 16
RECHECK_S = 60.0
SEND_S = 20.0


class Refused(Exception):
    """The socket is closed with this code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Socket(AsyncWebsocketConsumer):
    """Subclasses say in `permit` whose it is, in `serve` what they send; that runs as a task until the socket closes."""

    # No channel layer per socket: a process has one subscription, and a dead Redis closes nobody's socket.
    channel_layer_alias = "none"
    recheck_s = RECHECK_S
    # How many of one kind a person may have at this process, and how many are open, by kind and person.
    kind, most_sockets = "browser", SOCKETS_PER_USER
    open_sockets: Counter[tuple[str, int]] = Counter()

    def prepare(self) -> None:
        """Read the address. Raises ValueError."""

    async def permit(self) -> int:
        """The id of the person it is for; asked again every minute. Raises Refused."""
        raise NotImplementedError

    async def serve(self) -> None:
        raise NotImplementedError

    def leave(self) -> None:
        """Give up what `serve` has subscribed to."""

    async def connect(self) -> None:
        self.tasks: list[asyncio.Task] = []
        self.user_id: int | None = None
        self.frames_heard = 0
        # Accepted first, so that who opens it can read why it is closed.
        await self.accept()
        try:
            self.query = parse_qs(self.scope["query_string"].decode("ascii", "replace"), max_num_fields=200)
            self.prepare()
            self._count_in(await self.permit())
        except ValueError as error:
            await self.end(MALFORMED, str(error)[:100])
        except Refused as refusal:
            await self.end(refusal.code, str(refusal))
        else:
            self.tasks = [asyncio.create_task(self.guard(work)) for work in (self.serve, self._recheck)]

    async def disconnect(self, code: int) -> None:
        for task in self.tasks:
            task.cancel()
        self.leave()
        if self.user_id is not None:
            self.open_sockets[self.kind, self.user_id] -= 1

    async def send_json(self, frame: dict) -> None:
        await self.send_frame(json.dumps(frame, separators=(",", ":")))

    async def send_frame(self, text: str) -> None:
        """Raises TooSlow when the other side does not take it."""
        try:
            async with asyncio.timeout(SEND_S):
                await self.send(text_data=text)
        except TimeoutError:
            raise TooSlow("a frame was not taken") from None

    async def end(self, code: int, reason: str = "") -> None:
        """Close. Who reads nothing does not take the close either; the server's own ping ends it."""
        try:
            async with asyncio.timeout(SEND_S):
                await self.close(code, reason)
        except (TimeoutError, OSError) as error:
            log.debug("socket_not_closed", code=code, error=str(error))

    async def guard(self, work) -> None:
        """Run one of the socket's tasks; whatever ends it closes the socket with a code."""
        try:
            await work()
        except Refused as refusal:
            await self.end(refusal.code, str(refusal))
        except TooSlow:
            await self.end(TOO_SLOW, "reconnect and go on where you are")
        except OSError as error:
            log.debug("browser_gone", path=self.scope["path"], error=str(error))
        except Exception:
            log.exception("socket_failed", path=self.scope["path"])
            await self.end(BROKEN)

    async def signed_in(self) -> User:
        """Who is signed in here, by the session as it is stored now. Raises Refused."""
        user = await get_user({"session": self._stored_session()})
        if not user.is_authenticated or not user.is_active:
            raise Refused(NOT_SIGNED_IN, "not signed in")
        return user

    def _stored_session(self) -> SessionBase:
        """Not as it was at connect: signing out elsewhere removes it."""
        return import_module(settings.SESSION_ENGINE).SessionStore(self.scope["session"].session_key)

    def _count_in(self, user_id: int) -> None:
        if self.open_sockets[self.kind, user_id] >= self.most_sockets:
            raise Refused(TOO_MANY, f"at most {self.most_sockets} of these connections per person")
        self.user_id = user_id
        self.open_sockets[self.kind, user_id] += 1

    async def _recheck(self) -> None:
        while True:
            await asyncio.sleep(self.recheck_s)
            await self.permit()
            self.frames_heard = 0
