"""A turn as server-sent events: its action's text as it is written, and in the end the turn as REST shows it."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from django.db import InterfaceError, OperationalError
from rest_framework.renderers import BaseRenderer

from apps.accounts.later import STILL_HERE
from apps.accounts.problems import document_of
from apps.environments.telling import document
from apps.environments.waiting import action_of
from apps.environments.writing import pieces

AWAY = document_of(503, "database_away", "The database is away; say the turn again.")


async def events_of(episode_id: int, number: int, timeout_s: float, rollout_id: int, past: int) -> AsyncGenerator[bytes]:
    """`text` events, then one `turn` event, or one `error`. `past`: tokens of the rollout before the turn's action."""
    answer = asyncio.ensure_future(action_of(episode_id, number, timeout_s))
    try:
        async for piece in pieces(rollout_id, past, answer):
            yield event("text", {"number": number, "text": piece}) if piece else STILL_HERE
        yield event("turn", document(await answer))
    except (OperationalError, InterfaceError):
        yield event("error", AWAY)
    finally:
        answer.cancel()


def event(kind: str, said: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(said, ensure_ascii=False, allow_nan=False)}\n\n".encode()


class EventStream(BaseRenderer):
    """An answer that is there at once, as the stream's only event. A problem stays the JSON that it is."""

    media_type, format, charset = "text/event-stream", "events", "utf-8"

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: dict | None = None) -> bytes:
        if renderer_context["response"].status_code >= 400:
            return json.dumps(data, ensure_ascii=False).encode()
        return event("turn", data)
