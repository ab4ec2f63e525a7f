"""Who judges a run just now, how fast, and how much waits for them: for its page. Bounded, however much there is."""

from dataclasses import dataclass
from datetime import timedelta

from django.db.models.functions import Now

from apps.feedback.models import Rating, Slot
from apps.runs.models import Run

MOST_COUNTED = 1_000
NAMES = 5
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class PeopleNow:
    """`waiting` and `hourly` stop counting at MOST_COUNTED. `names`: who holds an item, at most NAMES of them."""

    waiting: int
    hourly: int
    names: tuple[str, ...]

    @property
    def waiting_words(self) -> str:
        return _bounded(self.waiting)

    @property
    def hourly_words(self) -> str:
        return _bounded(self.hourly)

    @property
    def who(self) -> str:
        return ", ".join(self.names) if self.names else "nobody"


def people_now(run: Run) -> PeopleNow:
    """Three queries."""
    slots = Slot.objects.filter(run=run).order_by()
    newest = Rating.objects.filter(run=run, is_withdrawn=False).order_by("-pk").values("pk")[:MOST_COUNTED]
    holding = slots.filter(state=Slot.State.HELD, lease_until__gt=Now()).values_list("rater__username", flat=True).distinct()
    return PeopleNow(
        slots.filter(state=Slot.State.OPEN)[:MOST_COUNTED].count(),
        Rating.objects.filter(pk__in=newest, at__gte=Now() - HOUR).count(),
        tuple(sorted(holding[:NAMES])),
    )


def _bounded(count: int) -> str:
    return f"{MOST_COUNTED:,} or more" if count >= MOST_COUNTED else f"{count:,}"
