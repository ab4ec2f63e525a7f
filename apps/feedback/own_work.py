"""The effect of a person's own ratings: today's number, and what they shaped.

They shape groups, steps and versions. Only the person's newest decisions are read, so that no query
slows down with older ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, Max, Min, Q, QuerySet
from django.utils import timezone

from apps.accounts.models import User
from apps.buffer.models import StepItem
from apps.feedback.known_answers import is_met
from apps.feedback.models import KNOWN, Rating
from apps.runs.blind_review import sees_judgements
from apps.runs.models import Run, TrainStep

NEWEST = 5_000  # a person's decisions that are read
POINTS = 60  # points of the small curve
WIDTH = 480
HEIGHT = 96


@dataclass(frozen=True)
class Mark:
    """A step on the small curve, in drawing units.

    `own` means the person's ratings were in its batch.
    """

    x: float
    y: float
    step: int
    value: float
    own: bool


@dataclass(frozen=True)
class RatingsEffect:
    """The effect of a person's ratings in a run.

    `versions` are the first and the last weight version that they shaped. `is_all` tells whether
    the person has no decisions before those that are read.
    """

    run: Run
    is_all: bool
    ratings: int
    late: int
    groups: int
    steps: int
    first_step: int | None
    last_step: int | None
    marks: Sequence[Mark]
    newest: int = NEWEST

    @property
    def line(self) -> str:
        """Return the curve as an SVG polyline's points."""
        return " ".join(f"{mark.x:.1f},{mark.y:.1f}" for mark in self.marks)

    @property
    def own_marks(self) -> list[Mark]:
        return [mark for mark in self.marks if mark.own]

    @property
    def versions(self) -> tuple[int, int] | None:
        """Return the first and last weight versions made by those steps."""
        if self.last_step is None or self.first_step is None:
            return None
        interval = self.run.settings.sync_interval
        return (max(1, -(-self.first_step // interval)), -(-self.last_step // interval))


@dataclass(frozen=True)
class DecisionsToday:
    """The number of a person's decisions in force since midnight.

    `is_all` is False if there are more than were read.
    """

    count: int
    is_all: bool


def load_decisions_today(user: User) -> DecisionsToday:
    """Return the person's decisions since midnight by the server's clock, among the newest."""
    midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    newest = Rating.objects.filter(pk__in=_newest(user), at__gte=midnight)
    counts = newest.aggregate(
        made=Count("pk"), count=Count("pk", filter=Q(is_current=True, is_withdrawn=False))
    )
    return DecisionsToday(counts["count"], counts["made"] < NEWEST)


def _newest(user: User) -> QuerySet:
    """Return the ids of the person's newest decisions, replaced and withdrawn ones included."""
    return Rating.objects.filter(rater=user).order_by("-pk").values("pk")[:NEWEST]


def known_answers_met(user: User) -> tuple[int, int] | None:
    """Return how many known answers the person met, and out of how many.

    Only runs that tell their raters at once count; None if there are none.
    """
    answered = Rating.objects.counting().filter(
        pk__in=_newest(user), item__purpose__in=KNOWN, item__expected__isnull=False
    )
    ratings = list(answered.filter(run__config__people__gold__feedback=True).select_related("item"))
    people = {
        pk: run.settings.people
        for pk, run in Run.objects.in_bulk({rating.run_id for rating in ratings}).items()
    }
    return (
        (
            sum(is_met(rating.item, rating, people[rating.run_id]) for rating in ratings),
            len(ratings),
        )
        if ratings
        else None
    )


def load_own_effect(user: User, run: Run | None) -> RatingsEffect | None:
    """Return the effect of the person's ratings in this run, or in the one rated last.

    None before the first rating.
    """
    own_ratings = Rating.objects.counting().filter(pk__in=_newest(user))
    if run is None:
        last = (
            own_ratings.filter(run__in=Run.objects.visible_to(user))
            .order_by("-pk")
            .select_related("run__project")
            .first()
        )
        if last is None:
            return None
        run = last.run
    own_ratings = own_ratings.filter(run=run)
    counted = own_ratings.aggregate(all=Count("pk"), late=Count("pk", filter=Q(is_late=True)))
    if not counted["all"]:
        return None
    steps = TrainStep.objects.filter(
        run=run, state=TrainStep.State.COMMITTED, items__experience__group__in=_groups(own_ratings)
    )
    step_range = steps.aggregate(
        steps=Count("pk", distinct=True), first=Min("number"), last=Max("number")
    )
    trained = StepItem.objects.filter(step__run=run, experience__group__in=_groups(own_ratings))
    groups = trained.aggregate(groups=Count("experience__group", distinct=True))["groups"]
    own_steps = set(steps.order_by("-number").values_list("number", flat=True).distinct()[:1000])
    # Users who judge blind do not see the mean reward.
    marks = _marks(run, own_steps) if sees_judgements(user, run) else []
    is_all = _newest(user).count() < NEWEST
    return RatingsEffect(
        run,
        is_all,
        counted["all"],
        counted["late"],
        groups,
        step_range["steps"],
        step_range["first"],
        step_range["last"],
        marks,
    )


def _groups(ratings: QuerySet[Rating]) -> QuerySet:
    """Return the groups of these ratings."""
    on_time = ratings.filter(is_late=False)
    return (
        on_time.filter(item__isnull=False)
        .order_by()
        .values("item__group")
        .union(on_time.filter(item__isnull=True).order_by().values("rollout__group"))
    )


def _marks(run: Run, own_steps: set[int]) -> list[Mark]:
    """Return the run's mean reward of the newest steps, in drawing units."""
    rows = list(
        run.metrics.filter(name="reward_mean")
        .order_by("-step")
        .values_list("step", "value")[:POINTS]
    )[::-1]
    if len(rows) < 2:
        return []
    low = min(value for _, value in rows)
    high = max(value for _, value in rows)
    span = (high - low) or 1.0
    last = len(rows) - 1
    return [
        Mark(
            4 + place * (WIDTH - 8) / last,
            4 + (HEIGHT - 8) * (1 - (value - low) / span),
            step,
            value,
            step in own_steps,
        )
        for place, (step, value) in enumerate(rows)
    ]
