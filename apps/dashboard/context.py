"""What the frame of every page needs: the rail, how many replies wait for this person, and how many alerts."""

from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import SimpleLazyObject

from apps.alerts.models import Alert
from apps.dashboard.tour import tour_of
from apps.feedback.claiming import waiting_for
from apps.runs import control_plane

PLACES = (
    ("live", "Live", "l"),
    ("rate", "Rate", "a"),
    ("runs", "Runs", "r"),
    ("tasksets", "Tasksets", "t"),
    ("environments", "Environments", "e"),
    ("weights", "Weights", "w"),
    ("workers", "Workers", "o"),
    ("settings", "Settings", "s"),
)
MOST_COUNTED = 99


def frame(request: HttpRequest) -> dict:
    """Context processor. The counts are bounded, and asked for only by pages that show the frame; so is where the tour is."""
    places = [{"name": name, "word": word, "key": key, "url": reverse(name)} for name, word, key in PLACES]
    return {
        "rail": places,
        "waiting_ratings": SimpleLazyObject(lambda: waiting(request)),
        "unheard_alerts": SimpleLazyObject(lambda: unheard(request)),
        "tour": SimpleLazyObject(lambda: tour_of(request)),
        "control_plane": SimpleLazyObject(control_plane.look),
    }


def waiting(request: HttpRequest) -> str:
    if not getattr(request, "user", None) or not request.user.is_authenticated:
        return ""
    return _bounded(waiting_for(request.user, MOST_COUNTED + 1).count)


def unheard(request: HttpRequest) -> str:
    """Open alerts of their runs that nobody has acknowledged."""
    if not getattr(request, "user", None) or not request.user.is_authenticated:
        return ""
    return _bounded(len(Alert.objects.unheard_by(request.user, MOST_COUNTED + 1)))


def _bounded(count: int) -> str:
    return f"{MOST_COUNTED}+" if count > MOST_COUNTED else str(count or "")
