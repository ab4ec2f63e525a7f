"""Rollouts as REST documents."""

import math
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.accounts.documents import Choice
from apps.accounts.listing import Id, Paged
from apps.rollouts.models import Rollout


class RolloutRow(serializers.ModelSerializer):
    """A rollout in a list. Origin and versions are null for raters who rate its run blind."""

    # The context's `open_runs` are the ids of the runs whose judgements the user may see.

    origin = serializers.SerializerMethodField()
    first_version = serializers.SerializerMethodField()
    last_version = serializers.SerializerMethodField()

    class Meta:
        model = Rollout
        fields: tuple[str, ...] = (
            "id",
            "run",
            "group",
            "sample_index",
            "origin",
            "state",
            "text",
            "stop_reason",
            "prompt_tokens",
            "completion_tokens",
            "first_version",
            "last_version",
            "started_at",
            "finished_at",
            "arrays_released_at",
        )
        read_only_fields = fields

    @extend_schema_field(serializers.ChoiceField(Rollout.Origin.choices, allow_null=True))
    def get_origin(self, rollout: Rollout) -> str | None:
        return rollout.origin if self.is_open(rollout) else None

    def get_first_version(self, rollout: Rollout) -> int | None:
        return rollout.first_version if self.is_open(rollout) else None

    def get_last_version(self, rollout: Rollout) -> int | None:
        return rollout.last_version if self.is_open(rollout) else None

    def is_open(self, rollout: Rollout) -> bool:
        return rollout.run_id in self.context["open_runs"]


class Segment(serializers.Serializer):
    start = serializers.IntegerField(help_text="First completion token.")
    version = serializers.IntegerField(help_text="The weight version that sampled from there on.")


class TokenArrays(serializers.Serializer):
    """Token ids are the truth.

    The completion's arrays are aligned. Logprobs and segments are null for raters who rate blind.
    """

    prompt_ids = serializers.ListField(child=serializers.IntegerField())
    completion_ids = serializers.ListField(child=serializers.IntegerField())
    logprobs = serializers.ListField(
        child=serializers.FloatField(allow_null=True),
        allow_null=True,
        help_text="Logprobs at sampling time, in nats.",
    )
    action_mask = serializers.ListField(
        child=serializers.IntegerField(), help_text="1 where the policy chose the token."
    )
    segments = Segment(many=True, allow_null=True)


TEXT_PART = {
    "type": "object",
    "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
    "required": ["type", "text"],
}
PICTURE_PART = {
    "type": "object",
    "properties": {
        "type": {"const": "image"},
        "picture": {
            "type": "string",
            "description": "Its name: /api/v1/pictures/{name}/ is the PNG.",
        },
        "width": {"type": "integer", "description": "Pixels."},
        "height": {"type": "integer", "description": "Pixels."},
    },
    "required": ["type", "picture", "width", "height"],
}


@extend_schema_field(
    {
        "oneOf": [
            {"type": "string"},
            {"type": "array", "items": {"oneOf": [TEXT_PART, PICTURE_PART]}},
        ]
    }
)
class Content(serializers.JSONField):
    """The content of a message: a text, or parts, texts and pictures."""


class Message(serializers.Serializer):
    role = serializers.CharField()
    content = Content()


class RolloutDocument(RolloutRow):
    """A rollout with its task's messages and its tokens."""

    prompt = Message(many=True, source="group.task.prompt", read_only=True)
    tokens = serializers.SerializerMethodField()

    class Meta(RolloutRow.Meta):
        fields = (*RolloutRow.Meta.fields, "prompt", "tokens")
        read_only_fields = fields

    @extend_schema_field(TokenArrays(allow_null=True))
    def get_tokens(self, rollout: Rollout) -> dict[str, Any] | None:
        """None while it is being sampled, when it failed, and where its arrays were let go
        (`arrays_released_at`).
        """
        tokens = rollout.tokens_if_kept
        if tokens is None:
            return None
        judged = {
            "logprobs": [value if math.isfinite(value) else None for value in tokens.logprobs],
            "segments": [
                {"start": start, "version": version} for start, version in tokens.segments
            ],
        }
        return {
            "prompt_ids": tokens.prompt_ids,
            "completion_ids": tokens.completion_ids,
            "action_mask": tokens.action_mask,
            **(judged if self.is_open(rollout) else dict.fromkeys(judged)),
        }


class RolloutQuery(Paged):
    run = Id(required=False)
    group = Id(required=False)
    state = Choice(Rollout.State.choices, required=False)
    origin = Choice(
        Rollout.Origin.choices,
        required=False,
        help_text=(
            "Origin of the reply, in the runs that you do not rate blind. If omitted: samples of "
            "the policy and expert answers, without the anchors of the base weights."
        ),
    )
