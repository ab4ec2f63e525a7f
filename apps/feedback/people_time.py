"""People's time in the usage of runs, recomputed from their decisions so that nothing counts twice.

Decisions record the seconds that they were open in a visible tab. The simulated rater's do not
count.
"""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypedDict

from django.db.models import F, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Now, TruncHour

from apps.feedback.models import Rating
from apps.runs.costs import PEOPLE
from apps.runs.models import Run, Usage

if TYPE_CHECKING:
    from django_stubs_ext import WithAnnotations

RUNS_AT_ONCE = 50
HOUR = timedelta(hours=1)
# A decision in progress when sums were made has been committed after this time.
LATELY = timedelta(minutes=10)


def count_time() -> int:
    """Update the sums of runs with new decisions; return how many runs."""
    runs = list(list_runs_due_for_counting()[:RUNS_AT_ONCE])
    for run in runs:
        timed = Rating.objects.filter(run=run, rater__is_simulated=False, seconds__gt=0)
        if run.counted_until:
            timed = timed.filter(at__gte=run.counted_until - HOUR)
        hours = (
            timed.order_by()
            .annotate(hour=TruncHour("at"))
            .values_list("hour")
            .annotate(total=Sum("seconds"))
        )
        # Record that it was computed, even when the time is zero.
        newest = run.newest.replace(minute=0, second=0, microsecond=0)
        Usage.put(
            run.pk, "", {(PEOPLE, newest): 0.0} | {(PEOPLE, hour): total for hour, total in hours}
        )
    return len(runs)


class Times(TypedDict):
    """What the query adds to a run."""

    newest: datetime  # of the decisions
    counted_until: datetime | None  # the newest hour that was counted


def list_runs_due_for_counting() -> "QuerySet[WithAnnotations[Run, Times]]":
    """Return runs whose newest decision is recent, or in an hour that is not counted yet.

    Two index probes per run.
    """
    counted = Usage.objects.filter(run=OuterRef("pk"), kind=PEOPLE).order_by("-hour")
    newest = Rating.objects.filter(run=OuterRef("pk")).order_by("-pk")
    annotated = Run.objects.annotate(
        newest=Subquery(newest.values("at")[:1]), counted_until=Subquery(counted.values("hour")[:1])
    )
    is_new = (
        Q(counted_until=None)
        | Q(newest__gte=F("counted_until") + HOUR)
        | Q(newest__gte=Now() - LATELY)
    )
    return annotated.filter(is_new, newest__isnull=False).order_by("-newest")
