"""What every socket obeys: who may open it, how many, for how long, and that it only speaks to the browser."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable
from importlib import import_module
from typing import Protocol
from urllib.parse import parse_qs

import structlog
from channels.auth import get_user
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase

from apps.accounts.models import User
from apps.streaming.models import Topic
from apps.streaming.watcher import TooSlow, Watcher

log = structlog.get_logger(__name__)

# Close codes: below 4000 the protocol's own, from there ours.
TOO_CHATTY, TOO_BIG, BROKEN, RESTARTING = 1008, 1009, 1011, 1012
TOO_SLOW, NOT_SIGNED_IN, NOT_YOURS, MALFORMED, TOO_MANY = 4008, 4401, 4403, 4404, 4408
SOCKETS_PER_USER = 16
TOPICS_PER_SOCKET = 20
LONGEST_FRAME = 1024  # characters from the browser
MOST_FRAMES = 100  # from the browser, between two looks at its permission
RECHECK_S = 60.0
SEND_S = 20.0


class Sight(Protocol):
    """What a person may hear of what was said about a run: `apps.runs.blindness`, wired in `rftweb.asgi`."""

    def open_topics(self, user: User, topics: Iterable[int]) -> frozenset[int]: ...

    def told(self, kind: str, payload: dict) -> dict: ...


class Refused(Exception):
    """The socket is closed with this code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Socket(AsyncWebsocketConsumer):
    """Subclasses say in `serve` what they send; it runs as a task until the socket closes."""

    # No channel layer per socket: a process has one subscription, and a dead Redis closes nobody's socket.
    channel_layer_alias = "none"
    recheck_s = RECHECK_S
    open_sockets: Counter[int] = Counter()

    def __init__(self, sight: Sight) -> None:
        super().__init__()
        self.sight = sight
        self.open_topics: frozenset[int] | None = None

    def prepare(self) -> None:
        """Read the rest of the query. Raises ValueError."""

    async def serve(self) -> None:
        raise NotImplementedError

    def leave(self) -> None:
        """Give up what `serve` has subscribed to."""

    async def connect(self) -> None:
        self.tasks: list[asyncio.Task] = []
        self.user_id: int | None = None
        self.frames_heard = 0
        self.watcher = Watcher()
        # Accepted first, so that the browser can read why it is closed.
        await self.accept()
        try:
            self.query = parse_qs(self.scope["query_string"].decode("ascii", "replace"), max_num_fields=200)
            self.topic_ids = self.numbers("topic", most=TOPICS_PER_SOCKET)
            self.prepare()
            self.topics = await self._permitted_topics()
            self._count_in()
        except ValueError as error:
            await self._end(MALFORMED, str(error)[:100])
        except Refused as refusal:
            await self._end(refusal.code, str(refusal))
        else:
            self.tasks = [asyncio.create_task(self._guard(work)) for work in (self.serve, self._recheck)]

    async def disconnect(self, code: int) -> None:
        for task in self.tasks:
            task.cancel()
        self.leave()
        if self.user_id is not None:
            self.open_sockets[self.user_id] -= 1

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        self.frames_heard += 1
        if len(text_data or bytes_data or "") > LONGEST_FRAME:
            await self._end(TOO_BIG)
        elif self.frames_heard > MOST_FRAMES:
            await self._end(TOO_CHATTY)
        elif text_data == "ping":
            await self.send_json({"pong": True})

    async def send_json(self, frame: dict) -> None:
        await self.send_frame(json.dumps(frame, separators=(",", ":")))

    async def send_frame(self, text: str) -> None:
        """Raises TooSlow when the browser does not take it."""
        try:
            async with asyncio.timeout(SEND_S):
                await self.send(text_data=text)
        except TimeoutError:
            raise TooSlow("a frame was not taken") from None

    async def _end(self, code: int, reason: str = "") -> None:
        """Close. A browser that reads nothing does not take the close either; the server's own ping ends it."""
        try:
            async with asyncio.timeout(SEND_S):
                await self.close(code, reason)
        except (TimeoutError, OSError) as error:
            log.debug("socket_not_closed", code=code, error=str(error))

    def numbers(self, name: str, most: int) -> list[int]:
        """The query's integers of this name. Raises ValueError."""
        found = [int(text) for text in self.query.get(name, [])]
        if len(found) > most or any(abs(number) >= 2**63 for number in found):
            raise ValueError(f"{name}: at most {most} 64-bit integers")
        return found

    # -- permission -------------------------------------------------------------------------------------------------

    async def _permitted_topics(self) -> dict[int, str]:
        """Names of the asked topics by id. Raises Refused unless the person may follow every one."""
        user = await get_user({"session": self._stored_session()})
        if not user.is_authenticated or not user.is_active:
            raise Refused(NOT_SIGNED_IN, "not signed in")
        self.signed_in_as = user.pk
        topics, open_topics = await self._visible(user)
        if not self.topic_ids or set(topics) != set(self.topic_ids):
            raise Refused(NOT_YOURS, "no such topic that you may follow")
        if self.open_topics not in (None, open_topics):
            raise Refused(RESTARTING, "what you may see has changed")
        self.open_topics = open_topics
        return topics

    @database_sync_to_async
    def _visible(self, user: User) -> tuple[dict[int, str], frozenset[int]]:
        names = dict(Topic.objects.visible_to(user).filter(pk__in=self.topic_ids).values_list("pk", "name"))
        return names, self.sight.open_topics(user, self.topic_ids)

    def _stored_session(self) -> SessionBase:
        """The session as it is stored now, not as it was at connect: signing out elsewhere removes it."""
        return import_module(settings.SESSION_ENGINE).SessionStore(self.scope["session"].session_key)

    def _count_in(self) -> None:
        if self.open_sockets[self.signed_in_as] >= SOCKETS_PER_USER:
            raise Refused(TOO_MANY, f"at most {SOCKETS_PER_USER} live connections per person")
        self.user_id = self.signed_in_as
        self.open_sockets[self.user_id] += 1

    async def _recheck(self) -> None:
        while True:
            await asyncio.sleep(self.recheck_s)
            self.frames_heard = 0
            await self._permitted_topics()

    async def _guard(self, work) -> None:
        """Run one of the socket's tasks; whatever ends it closes the socket with a code."""
        try:
            await work()
        except Refused as refusal:
            await self._end(refusal.code, str(refusal))
        except TooSlow:
            await self._end(TOO_SLOW, "reconnect with the ids you have")
        except OSError as error:
            log.debug("browser_gone", path=self.scope["path"], error=str(error))
        except Exception:
            log.exception("socket_failed", path=self.scope["path"])
            await self._end(BROKEN)
