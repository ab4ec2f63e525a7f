"""Health checks for load balancers: whether this process is alive, and whether it can work."""

from django.db import Error, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from apps.accounts.body_limits import SMALL, takes_body
from apps.runs import control_plane
from apps.streaming import worker_notifications

UNAVAILABLE = 503


@takes_body(SMALL)
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Answer if the process is alive. Restart it when this fails."""
    return JsonResponse({"process": "ok"})


@takes_body(SMALL)
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Answer if PostgreSQL answers.

    Redis and the control plane are reported, not required: pages work without them.
    """
    services = {
        "postgres": "ok" if postgres_answers() else "away",
        "redis": "ok" if worker_notifications.reachable() else "away",
        "control": control_state(),
    }
    return JsonResponse(services, status=200 if services["postgres"] == "ok" else UNAVAILABLE)


def postgres_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return True
    except Error:
        return False


def control_state() -> str:
    """Return ok, unknown, or for how long there was no sweep."""
    try:
        plane = control_plane.read_control_plane()
    except Error:
        return "unknown"
    return f"behind by {control_plane.duration(plane.behind_s)}" if plane.is_behind else "ok"
