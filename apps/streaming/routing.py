"""The sockets' addresses."""

from django.urls import URLPattern, path

from apps.streaming.consumers import EventsConsumer, LiveConsumer
from apps.streaming.handshake import from_browsers
from apps.streaming.topic_sockets import Sight


def sockets(sight: Sight) -> list[URLPattern]:
    """`sight` says what each person may hear of what was said about a run."""
    return [
        path("ws/live/", from_browsers(LiveConsumer.as_asgi(sight=sight))),
        path("ws/events/", from_browsers(EventsConsumer.as_asgi(sight=sight))),
    ]
