"""Ratings as REST documents."""

from rest_framework import serializers

from apps.accounts.documents import LARGEST_ID, Strict, Uuid, Whole
from apps.accounts.listing import Query
from apps.rollouts.models import Rollout
from apps.rollouts.schemas import Message

MOST_RATINGS = 500
QUEUE_ROWS, MOST_QUEUE_ROWS = 20, 100


class NewRating(Strict):
    """One rating."""

    rollout = Whole(min_value=0, max_value=LARGEST_ID)
    stars = Whole(min_value=1, max_value=5)
    client_uuid = Uuid(help_text="Made by you; sent again it is the same rating.")


class NewRatings(Strict):
    """What is posted. The ratings are looked at one by one: a bad one spoils no other."""

    ratings = serializers.ListField(child=serializers.JSONField(allow_null=True), min_length=1, max_length=MOST_RATINGS)


class NewRatingsShape(serializers.Serializer):
    """Ratings, looked at one by one: a bad one spoils no other."""

    ratings = serializers.ListField(child=NewRating(), min_length=1, max_length=MOST_RATINGS)


class RatingResult(serializers.Serializer):
    """What became of one rating."""

    status = serializers.IntegerField(
        help_text="201 taken, now or when it was sent before; 404 no such rollout, or not yours; 409 not ratable now, or its "
        "client_uuid was used with other stars; 422 not acceptable."
    )
    rating = serializers.IntegerField(allow_null=True, help_text="Its id.")
    is_late = serializers.BooleanField(help_text="Its group was closed already: kept, not trained on.")
    detail = serializers.CharField(allow_blank=True)


class RatingResults(serializers.Serializer):
    """Result i answers rating i."""

    results = RatingResult(many=True)


class QueueQuery(Query):
    limit = serializers.IntegerField(required=False, default=QUEUE_ROWS, min_value=1, max_value=MOST_QUEUE_ROWS)


class Waiting(serializers.ModelSerializer):
    """A rollout that waits for you."""

    prompt = Message(many=True, source="group.task.prompt", read_only=True)
    deadline_at = serializers.DateTimeField(source="group.deadline_at", read_only=True, allow_null=True)

    class Meta:
        model = Rollout
        fields = ("id", "run", "group", "prompt", "text", "deadline_at")
        read_only_fields = fields


class WaitingRollouts(serializers.Serializer):
    items = Waiting(many=True)
