"""Frames of an episode's socket: JSON objects with a `type`, and the fields of the REST bodies."""

from typing import Any

from rest_framework import serializers

from apps.accounts import strict_json
from apps.accounts.documents import Strict, Yes
from apps.environments.schemas import EarnedReward, Ends, Turn


class StreamedTurn(Turn):
    """A turn whose action is streamed if requested, and then sent whole."""

    stream = Yes(
        required=False,
        default=False,
        help_text="Whether to send the action's text while it is generated.",
    )


class Ping(Strict):
    """A keep-alive frame without content."""


FRAMES = {"turn": StreamedTurn, "result": Ends, "reward": EarnedReward, "ping": Ping}


def read_frame(text: str) -> tuple[str, dict[str, Any]]:
    """Return (type, checked fields) of a frame. Raises NotStrictJson, ValidationError."""
    document = strict_json.decode_json(text)
    kind = document.pop("type", None) if isinstance(document, dict) else None
    if not isinstance(kind, str) or kind not in FRAMES:
        raise serializers.ValidationError(
            {"type": [f"A frame must be a JSON object whose `type` is one of {', '.join(FRAMES)}."]}
        )
    form = FRAMES[kind](data=document)
    form.is_valid(raise_exception=True)
    return kind, form.validated_data
