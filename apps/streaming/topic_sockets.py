"""Sockets that follow topics and send each person only what that person may see."""

import re
from collections.abc import Iterable
from typing import Protocol

from channels.db import database_sync_to_async

from apps.accounts.models import User
from apps.streaming.models import Topic
from apps.streaming.sockets import NOT_YOURS, RESTARTING, TOO_BIG, TOO_CHATTY, Refused, Socket
from apps.streaming.watcher import Watcher

TOPICS_PER_SOCKET = 20
INTEGER = re.compile(r"-?[0-9]{1,18}")
MAX_FRAME_BYTES = 1024  # characters from the browser
MAX_FRAMES = 100  # from the browser, between two checks of its permission


class EventVisibility(Protocol):
    """Access of people to events and ratings: `apps.runs.blind_review`, set in `rftweb.asgi`."""

    def open_topics(self, user: User, topics: Iterable[int]) -> frozenset[int]: ...

    def blind_payload(self, kind: str, payload: dict) -> dict: ...


class TopicSocket(Socket):
    """A socket for signed-in people from our own origin: `?topic=3&topic=7`."""

    def __init__(self, sight: EventVisibility) -> None:
        super().__init__()
        self.sight = sight
        self.open_topics: frozenset[int] = frozenset()
        self.is_permitted = False
        self.watcher = Watcher()

    def prepare(self) -> None:
        self.topic_ids = self.numbers("topic", limit=TOPICS_PER_SOCKET)

    async def permit(self) -> int:
        """Return the person's id; raise Refused unless every topic may be followed.

        Sets `topics`, the names of the topics by id.
        """
        user = await self.signed_in()
        self.topics, open_topics = await self._visible(user)
        if not self.topic_ids or set(self.topics) != set(self.topic_ids):
            raise Refused(NOT_YOURS, "the topic doesn’t exist, or you can’t follow it")
        if self.is_permitted and self.open_topics != open_topics:
            raise Refused(RESTARTING, "your permissions have changed")
        self.open_topics = open_topics
        self.is_permitted = True
        return user.pk

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        self.frames_heard += 1
        if len(text_data or bytes_data or "") > MAX_FRAME_BYTES:
            await self.end(TOO_BIG)
        elif self.frames_heard > MAX_FRAMES:
            await self.end(TOO_CHATTY)
        elif text_data == "ping":
            await self.send_json({"pong": True})

    def numbers(self, name: str, limit: int) -> list[int]:
        """Return the integers of this name in the query. Raise ValueError."""
        values = self.query.get(name, [])
        if len(values) > limit or not all(map(INTEGER.fullmatch, values)):
            raise ValueError(f"{name}: at most {limit} integers of up to 18 digits")
        return [int(text) for text in values]

    @database_sync_to_async
    def _visible(self, user: User) -> tuple[dict[int, str], frozenset[int]]:
        names = dict(
            Topic.objects.visible_to(user).filter(pk__in=self.topic_ids).values_list("pk", "name")
        )
        return names, self.sight.open_topics(user, self.topic_ids)
