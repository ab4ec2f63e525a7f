"""Server-sent events of a turn: the action's text as it is written, then the turn as in REST."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from django.db import InterfaceError, OperationalError
from rest_framework.renderers import BaseRenderer

from apps.accounts.async_response import STILL_HERE
from apps.accounts.problems import problem_document
from apps.environments.action_waiters import await_action
from apps.environments.turn_messages import turn_document
from apps.environments.turn_text import stream_turn_text

AWAY = problem_document(
    503, "database_unavailable", "The database is not available; send the turn again."
)


async def stream_turn_events(
    episode_id: int, number: int, timeout_s: float, rollout_id: int, past: int
) -> AsyncGenerator[bytes]:
    """Yield `text` events, then one `turn` event, or one `error`.

    `past` is the number of rollout tokens before the turn's action.
    """
    answer = asyncio.ensure_future(await_action(episode_id, number, timeout_s))
    try:
        async for piece in stream_turn_text(rollout_id, past, answer):
            yield encode_event("text", {"number": number, "text": piece}) if piece else STILL_HERE
        yield encode_event("turn", turn_document(await answer))
    except (OperationalError, InterfaceError):
        yield encode_event("error", AWAY)
    finally:
        answer.cancel()


def encode_event(kind: str, value: object) -> bytes:
    data = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return f"event: {kind}\ndata: {data}\n\n".encode()


class EventStream(BaseRenderer):
    """A renderer for an answer that is complete at once: the only event of the stream.

    An error stays JSON.
    """

    media_type = "text/event-stream"
    format = "events"
    charset = "utf-8"

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        assert renderer_context is not None  # REST framework gives one
        if renderer_context["response"].status_code >= 400:
            return json.dumps(data, ensure_ascii=False).encode()
        return encode_event("turn", data)
