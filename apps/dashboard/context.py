"""Template context of every page's frame: navigation, counts of waiting items and of alerts.

Who only rates gets the places where raters work, and no others.
"""

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import SimpleLazyObject

from apps.accounts.requests import is_signed_in
from apps.alerts.models import Alert
from apps.dashboard.help.places import help_address
from apps.dashboard.tour import load_tour
from apps.feedback.claiming import waiting_for
from apps.runs import control_plane
from apps.runs.models import Run

PLACES = (
    ("home", "Home", "h"),
    ("live", "Live", "l"),
    ("rate", "Rate", "a"),
    ("runs", "Runs", "r"),
    ("tasksets", "Tasksets", "t"),
    ("environments", "Environments", "e"),
    ("weights", "Weights", "w"),
    ("workers", "Workers", "o"),
    ("help", "Help", "p"),
    ("settings", "Settings", "s"),
)
MY_WORK = ("my-work", "My work", "m")
PLACES_OF_RATERS = ("rate", "live", "my-work", "help", "settings")
MAX_COUNTED = 99


def frame(request: HttpRequest) -> dict:
    """Return the context of the frame.

    The counts are bounded and lazy, so that only pages that show the frame query them; the same
    holds for the tour and the role.
    """
    only_rates = SimpleLazyObject(lambda: rates_only(request))
    return {
        "csrf_cookie": settings.CSRF_COOKIE_NAME,
        "only_rates": only_rates,
        "rail": SimpleLazyObject(lambda: navigation_places(bool(only_rates))),
        "waiting_ratings": SimpleLazyObject(lambda: count_waiting_items(request)),
        "unacknowledged_alerts": SimpleLazyObject(lambda: count_unacknowledged_alerts(request)),
        "help_url": SimpleLazyObject(lambda: help_address(_url_name(request))),
        "tour": SimpleLazyObject(lambda: load_tour(request)),
        "control_plane": SimpleLazyObject(control_plane.read_control_plane),
    }


def _url_name(request: HttpRequest) -> str | None:
    match = getattr(request, "resolver_match", None)
    return match.url_name if match else None


def rates_only(request: HttpRequest) -> bool:
    return is_signed_in(request) and request.user.only_rates()


def navigation_places(only_rates: bool) -> list[dict]:
    """Return the places of the navigation; raters begin with the one where they work."""
    places = {
        name: {"name": name, "word": word, "key": key, "url": reverse(name)}
        for name, word, key in (*PLACES, MY_WORK)
    }
    names = PLACES_OF_RATERS if only_rates else [name for name, *_ in PLACES]
    return [places[name] for name in names]


def count_waiting_items(request: HttpRequest) -> str:
    if not is_signed_in(request):
        return ""
    return _bounded(waiting_for(request.user, MAX_COUNTED + 1).count)


def count_unacknowledged_alerts(request: HttpRequest) -> str:
    """Return the number of unacknowledged alerts of the user's runs."""
    if not is_signed_in(request):
        return ""
    request.__dict__["unacknowledged_alerts"] = Alert.objects.unacknowledged_for(
        request.user, MAX_COUNTED + 1
    )
    return _bounded(len(request.__dict__["unacknowledged_alerts"]))


def counted_alerts_of(request: HttpRequest, run: Run) -> list[Alert] | None:
    """Return the run's unacknowledged alerts among those that the frame has counted.

    None if the frame has not counted yet, or stopped counting.
    """
    counted = request.__dict__.get("unacknowledged_alerts")
    if counted is None or len(counted) > MAX_COUNTED:
        return None
    return [alert for alert in counted if alert.run_id == run.pk]


def _bounded(count: int) -> str:
    return f"{MAX_COUNTED}+" if count > MAX_COUNTED else str(count or "")
