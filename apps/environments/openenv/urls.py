"""URLs for OpenEnv's HTTP clients under /openenv/, with the project, or without if unambiguous."""

from django.urls import path, re_path

from apps.environments.openenv import api

VIEWS = {
    "health": api.Health,
    "metadata": api.Metadata,
    "schema": api.Schema,
    "openapi.json": api.Document,
    "state": api.State,
    "reset": api.Reset,
    "step": api.Step,
    "mcp": api.Mcp,
}

urlpatterns = [
    path(f"{route}/{address}", view.as_view())
    for route in ("<slug:name>", "<slug:project>/<slug:name>")
    for address, view in VIEWS.items()
]
urlpatterns.append(re_path("", api.Nowhere.as_view()))
