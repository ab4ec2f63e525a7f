"""What a person's own ratings came to: how many today and how fast, and which groups, steps and versions they shaped."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

from django.db.models import Count, Max, Min, Q, QuerySet
from django.utils import timezone

from apps.accounts.models import User
from apps.buffer.models import StepItem
from apps.feedback.models import Rating
from apps.runs.blindness import sees_judgements
from apps.runs.models import Run, TrainStep

RECENT = 50  # decisions from which one's median time is taken
POINTS = 60  # of the small curve
WIDTH, HEIGHT = 480, 96


@dataclass(frozen=True)
class Today:
    """One person's day so far. `seconds`: the median decision;"""

    ratings: int
    late: int
    seconds: float | None


@dataclass(frozen=True)
class Mark:
    """A step on the small curve, in its drawing's units; `own`: the person's ratings were in its batch."""

    x: float
    y: float
    step: int
    value: float
    own: bool


@dataclass(frozen=True)
class Shaped:
    """What one's ratings did in a run. `versions`: the first and the last weight version that they shaped."""

    run: Run
    ratings: int
    late: int
    groups: int
    steps: int
    first_step: int | None
    last_step: int | None
    marks: Sequence[Mark]

    @property
    def line(self) -> str:
        """The curve as an SVG polyline's points."""
        return " ".join(f"{mark.x:.1f},{mark.y:.1f}" for mark in self.marks)

    @property
    def own_marks(self) -> list[Mark]:
        return [mark for mark in self.marks if mark.own]

    @property
    def versions(self) -> tuple[int, int] | None:
        """Weight versions that came of those steps."""
        if self.last_step is None or self.first_step is None:
            return None
        interval = self.run.settings.sync_interval
        return (max(1, -(-self.first_step // interval)), -(-self.last_step // interval))


def today_of(user: User) -> Today:
    """Since midnight by the server's clock; the median of the last decisions whenever they were."""
    midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    mine = Rating.objects.counting().filter(rater=user)
    counted = mine.filter(at__gte=midnight).aggregate(all=Count("pk"), late=Count("pk", filter=Q(is_late=True)))
    lately = mine.filter(at__gte=midnight - timedelta(days=30)).order_by("-pk").values_list("seconds", flat=True)
    recent = [seconds for seconds in lately[:RECENT] if seconds]
    return Today(counted["all"], counted["late"], median(recent) if recent else None)


def shaped_by(user: User, run: Run | None) -> Shaped | None:
    """What the person's ratings did in this run, or in the one rated last; None before the first rating."""
    mine = Rating.objects.counting().filter(rater=user)
    if run is None:
        last = mine.filter(run__in=Run.objects.visible_to(user)).order_by("-pk").select_related("run__project").first()
        if last is None:
            return None
        run = last.run
    mine = mine.filter(run=run)
    counted = mine.aggregate(all=Count("pk"), late=Count("pk", filter=Q(is_late=True)))
    if not counted["all"]:
        return None
    steps = TrainStep.objects.filter(run=run, state=TrainStep.State.COMMITTED, items__experience__group__in=_groups(mine))
    seen = steps.aggregate(steps=Count("pk", distinct=True), first=Min("number"), last=Max("number"))
    trained = StepItem.objects.filter(step__run=run, experience__group__in=_groups(mine))
    groups = trained.aggregate(groups=Count("experience__group", distinct=True))["groups"]
    own = set(steps.order_by("-number").values_list("number", flat=True).distinct()[:1000])
    marks = _marks(run, own) if sees_judgements(user, run) else []  # the mean reward is not for who judges blind
    return Shaped(run, counted["all"], counted["late"], groups, seen["steps"], seen["first"], seen["last"], marks)


def _groups(mine: QuerySet[Rating]) -> QuerySet:
    """The groups these ratings are about."""
    on_time = mine.filter(is_late=False)
    return (
        on_time.filter(item__isnull=False).order_by().values("item__group").union(
            on_time.filter(item__isnull=True).order_by().values("rollout__group"))
    )  # fmt: skip


def _marks(run: Run, own: set[int]) -> list[Mark]:
    """The run's mean reward, step after step, in the drawing's units; the newest steps."""
    rows = list(run.metrics.filter(name="reward_mean").order_by("-step").values_list("step", "value")[:POINTS])[::-1]
    if len(rows) < 2:
        return []
    low, high = min(value for _, value in rows), max(value for _, value in rows)
    span, last = (high - low) or 1.0, len(rows) - 1
    return [
        Mark(4 + place * (WIDTH - 8) / last, 4 + (HEIGHT - 8) * (1 - (value - low) / span), step, value, step in own)
        for place, (step, value) in enumerate(rows)
    ]
