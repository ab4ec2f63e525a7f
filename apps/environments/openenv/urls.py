"""What OpenEnv's clients call over HTTP, under /openenv/: with the project, or without it where the name says enough."""

from django.urls import path, re_path

from apps.environments.openenv import api

VIEWS = {
    "health": api.Health, "metadata": api.Metadata, "schema": api.Schema, "openapi.json": api.Document,
    "state": api.State, "reset": api.Reset, "step": api.Step, "mcp": api.Mcp,
}  # fmt: skip

urlpatterns = [
    path(f"{named}/{address}", view.as_view())
    for named in ("<slug:name>", "<slug:project>/<slug:name>")
    for address, view in VIEWS.items()
]
urlpatterns.append(re_path("", api.Nowhere.as_view()))
