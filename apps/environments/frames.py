"""What may be said on an episode's socket: JSON objects with a `type`, and the fields of what REST takes."""

from typing import Any

from rest_framework import serializers

from apps.accounts import strict_json
from apps.accounts.documents import Strict, Yes
from apps.environments.schemas import EarnedReward, Ends, Turn


class StreamedTurn(Turn):
    """A turn; its action comes as it is written, if asked for, and whole once it is there."""

    stream = Yes(required=False, default=False, help_text="Whether the action's text is to come as it is written.")


class Ping(Strict):
    """A sign of life; nothing is asked."""


FRAMES = {"turn": StreamedTurn, "result": Ends, "reward": EarnedReward, "ping": Ping}


def read(text: str) -> tuple[str, dict[str, Any]]:
    """(type, checked fields) of a frame. Raises NotStrictJson, ValidationError."""
    document = strict_json.decode(text)
    kind = document.pop("type", None) if isinstance(document, dict) else None
    if not isinstance(kind, str) or kind not in FRAMES:
        raise serializers.ValidationError({"type": [f"A frame is a JSON object whose `type` is one of {', '.join(FRAMES)}."]})
    form = FRAMES[kind](data=document)
    form.is_valid(raise_exception=True)
    return kind, form.validated_data
