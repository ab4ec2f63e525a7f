"""URLs of the sockets."""

from django.urls import re_path

from apps.environments.openenv.socket import calls, frames

NAMED = r"^openenv/(?:(?P<project>[-a-zA-Z0-9_]{1,50})/)?(?P<name>[a-z0-9][a-z0-9_-]{0,59})"

# The stubs know Django's views alone, but Channels also routes ASGI applications with these paths.
sockets = [
    re_path(rf"{NAMED}/{name}/?$", socket)  # type: ignore[arg-type]
    for name, socket in (("ws", frames), ("mcp", calls))
]
