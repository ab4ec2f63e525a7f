"""Current raters of a run for its page: who, how fast, and how much waits for them.

All counts are bounded.
"""

from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Count, Q
from django.db.models.functions import Now

from apps.feedback.models import Rating, Slot
from apps.runs.models import Run

MAX_COUNTED = 1_000
NAMES = 5
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class PeopleNow:
    """Present raters and counts, which stop at MAX_COUNTED; `names` has at most NAMES raters."""

    waiting: int
    hourly: int
    hourly_simulated: int
    names: tuple[str, ...]

    @property
    def waiting_words(self) -> str:
        return _bounded(self.waiting)

    @property
    def hourly_words(self) -> str:
        return self._at_least(self.hourly)

    @property
    def simulated_words(self) -> str:
        return self._at_least(self.hourly_simulated)

    def _at_least(self, count: int) -> str:
        """Return the count of one kind of rater; both kinds are counted in the same ratings."""
        is_cut = self.hourly + self.hourly_simulated >= MAX_COUNTED
        return f"{count:,} or more" if is_cut else f"{count:,}"

    @property
    def who(self) -> str:
        return ", ".join(self.names) if self.names else "nobody"


def people_now(run: Run) -> PeopleNow:
    """Return the present raters of the run, in three queries."""
    slots = Slot.objects.filter(run=run).order_by()
    newest = (
        Rating.objects.filter(run=run, is_withdrawn=False)
        .order_by("-pk")
        .values("pk")[:MAX_COUNTED]
    )
    held_slots = slots.leased().filter(state=Slot.State.HELD)
    holding = held_slots.values_list("rater__username", "rater__is_simulated").distinct()[:NAMES]
    lately = Rating.objects.filter(pk__in=newest, at__gte=Now() - HOUR).aggregate(
        people=Count("pk", filter=Q(rater__is_simulated=False)),
        simulated=Count("pk", filter=Q(rater__is_simulated=True)),
    )
    return PeopleNow(
        waiting=slots.filter(state=Slot.State.OPEN)[:MAX_COUNTED].count(),
        hourly=lately["people"],
        hourly_simulated=lately["simulated"],
        names=tuple(sorted(_display_name(*rater) for rater in holding)),
    )


def _display_name(name: str, is_simulated: bool) -> str:
    return f"{name} (simulated)" if is_simulated else name


def _bounded(count: int) -> str:
    return f"{MAX_COUNTED:,} or more" if count >= MAX_COUNTED else f"{count:,}"
