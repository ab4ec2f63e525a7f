"""URLs of the sockets."""

from django.urls import re_path

from apps.environments.openenv.socket import calls, frames

NAMED = r"^openenv/(?:(?P<project>[-a-zA-Z0-9_]{1,50})/)?(?P<name>[a-z0-9][a-z0-9_-]{0,59})"

sockets = [re_path(rf"{NAMED}/ws/?$", frames), re_path(rf"{NAMED}/mcp/?$", calls)]
