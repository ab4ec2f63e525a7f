"""The sockets' addresses."""

from django.urls import path

from apps.streaming.consumers import EventsConsumer, LiveConsumer

websocket_urlpatterns = [
    path("ws/live/", LiveConsumer.as_asgi()),
    path("ws/events/", EventsConsumer.as_asgi()),
]
