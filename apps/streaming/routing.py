"""URLs of the web sockets."""

from django.urls import URLPattern, path

from apps.streaming.consumers import EventsConsumer, LiveConsumer
from apps.streaming.handshake import from_browsers
from apps.streaming.topic_sockets import EventVisibility


def sockets(sight: EventVisibility) -> list[URLPattern]:
    """Return the URL patterns; `sight` decides which parts of events each person may see."""
    return [
        path("ws/live/", from_browsers(LiveConsumer.as_asgi(sight=sight))),
        path("ws/events/", from_browsers(EventsConsumer.as_asgi(sight=sight))),
    ]
