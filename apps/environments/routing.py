"""The URL of the socket on which an episode is played."""

from django.urls import URLPattern, path

from apps.environments.episode_socket import EpisodeSocket
from apps.streaming.handshake import FromAnywhere


def episode_sockets() -> list[URLPattern]:
    socket = FromAnywhere(EpisodeSocket.as_asgi())
    # The stubs know Django's views alone, but Channels also routes ASGI applications so.
    return [path("ws/episodes/<int:pk>/", socket)]  # type: ignore[arg-type]
