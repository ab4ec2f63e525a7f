"""What the frame of every page needs: the rail, and how many replies wait for this person."""

from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import SimpleLazyObject

from apps.feedback.claiming import waiting_for

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
    """Context processor. The count is bounded, and asked for only by pages that show the rail."""
    places = [{"name": name, "word": word, "key": key, "url": reverse(name)} for name, word, key in PLACES]
    return {"rail": places, "waiting_ratings": SimpleLazyObject(lambda: waiting(request))}


def waiting(request: HttpRequest) -> str:
    if not getattr(request, "user", None) or not request.user.is_authenticated:
        return ""
    count = waiting_for(request.user, MOST_COUNTED + 1)
    return f"{MOST_COUNTED}+" if count > MOST_COUNTED else str(count or "")
