"""Base class of web sockets: who may open one, how many, for how long, and how it is closed."""

import asyncio
import json
from collections import Counter
from importlib import import_module
from urllib.parse import parse_qs

import structlog
from channels.auth import get_user
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase

from apps.accounts.models import User
from apps.accounts.second_factor import EXPLANATION, must_set_up_second_factor
from apps.streaming.watcher import TooSlow

log = structlog.get_logger(__name__)

# Close codes: below 4000 the protocol's own, from there ours.
NORMAL = 1000
UNSUPPORTED = 1003
TOO_CHATTY = 1008
TOO_BIG = 1009
BROKEN = 1011
RESTARTING = 1012
TOO_SLOW = 4008
NOT_SIGNED_IN = 4401
NOT_YOURS = 4403
MALFORMED = 4404
TOO_MANY = 4408
SOCKETS_PER_USER = 16
RECHECK_S = 60.0
SEND_S = 20.0


class Refused(Exception):
    """A reason to close the socket, with a close code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Socket(AsyncWebsocketConsumer):
    """A web socket of one person.

    Subclasses check access in `permit` and send in `serve`, which runs as a task until the socket
    closes.
    """

    # No channel layer per socket: each process has one subscription, so that an unavailable Redis
    # closes no socket.
    channel_layer_alias = "none"
    recheck_s = RECHECK_S
    # How many sockets of one kind a person may open in this process, and how many are open, by kind
    # and person.
    kind = "browser"
    most_sockets = SOCKETS_PER_USER
    open_sockets: Counter[tuple[str, int]] = Counter()

    def prepare(self) -> None:
        """Read the parameters of the URL. Raise ValueError."""

    async def permit(self) -> int:
        """Return the person's id; called again every minute. Raise Refused."""
        raise NotImplementedError

    async def serve(self) -> None:
        raise NotImplementedError

    def leave(self) -> None:
        """Cancel the subscriptions that `serve` made."""

    async def connect(self) -> None:
        self.tasks: list[asyncio.Task] = []
        self.user_id: int | None = None
        self.frames_heard = 0
        # Accept first, so that the client can read why the socket is closed.
        await self.accept()
        try:
            self.query = parse_qs(
                self.scope["query_string"].decode("ascii", "replace"), max_num_fields=200
            )
            self.prepare()
            self._count_in(await self.permit())
        except ValueError as error:
            await self.end(MALFORMED, str(error)[:100])
        except Refused as refusal:
            await self.end(refusal.code, str(refusal))
        else:
            self.tasks = [
                asyncio.create_task(self.guard(work)) for work in (self.serve, self._recheck)
            ]

    async def disconnect(self, code: int) -> None:
        for task in self.tasks:
            task.cancel()
        self.leave()
        if self.user_id is not None:
            self.open_sockets[self.kind, self.user_id] -= 1

    async def send_json(self, frame: dict) -> None:
        await self.send_frame(json.dumps(frame, separators=(",", ":")))

    async def send_frame(self, text: str) -> None:
        """Send a text frame. Raise TooSlow if the client does not read it in time."""
        try:
            async with asyncio.timeout(SEND_S):
                await self.send(text_data=text)
        except TimeoutError:
            raise TooSlow("the client reads too slowly") from None

    async def end(self, code: int, reason: str = "") -> None:
        """Close the socket.

        A client that reads nothing does not receive the close either; the server's own ping ends
        it.
        """
        try:
            async with asyncio.timeout(SEND_S):
                await self.close(code, reason)
        except (TimeoutError, OSError) as error:
            log.debug("socket_not_closed", code=code, error=str(error))

    async def guard(self, work) -> None:
        """Run one of the socket's tasks; any exception closes the socket with a code."""
        try:
            await work()
        except Refused as refusal:
            await self.end(refusal.code, str(refusal))
        except TooSlow:
            await self.end(TOO_SLOW, "reconnect and continue from your position")
        except OSError as error:
            log.debug("browser_disconnected", path=self.scope["path"], error=str(error))
        except Exception:
            log.exception("socket_failed", path=self.scope["path"])
            await self.end(BROKEN)

    async def signed_in(self) -> User:
        """Return the signed-in user, by the session as it is stored now. Raise Refused."""
        user = await get_user({"session": self._stored_session()})
        if not user.is_authenticated or not user.is_active:
            raise Refused(NOT_SIGNED_IN, "not signed in")
        if await database_sync_to_async(must_set_up_second_factor)(user):
            raise Refused(NOT_SIGNED_IN, EXPLANATION)
        return user

    def _stored_session(self) -> SessionBase:
        """Load the session from the database: a sign-out elsewhere has removed it."""
        return import_module(settings.SESSION_ENGINE).SessionStore(
            self.scope["session"].session_key
        )

    def _count_in(self, user_id: int) -> None:
        if self.open_sockets[self.kind, user_id] >= self.most_sockets:
            raise Refused(TOO_MANY, f"at most {self.most_sockets} of these connections per user")
        self.user_id = user_id
        self.open_sockets[self.kind, user_id] += 1

    async def _recheck(self) -> None:
        while True:
            await asyncio.sleep(self.recheck_s)
            await self.permit()
            self.frames_heard = 0
