"""The URL of the socket on which an episode is played."""

from django.urls import URLPattern, path

from apps.environments.episode_socket import EpisodeSocket
from apps.streaming.handshake import FromAnywhere


def episode_sockets() -> list[URLPattern]:
    return [path("ws/episodes/<int:pk>/", FromAnywhere(EpisodeSocket.as_asgi()))]
