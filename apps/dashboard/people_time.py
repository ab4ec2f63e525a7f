"""Estimate how many ratings a run asks of people, and how long people need for them."""

from dataclasses import dataclass
from statistics import median

from apps.accounts.models import Project
from apps.feedback.forms import FORMS
from apps.feedback.models import Rating
from apps.runs.config import RunConfig
from apps.runs.people import COMPARES

NEWEST_RATINGS = 200


@dataclass(frozen=True)
class PeopleTime:
    """The most ratings that people can be asked for, and the seconds of one.

    `each_s` is the median of `measured` ratings of the same kind in the project; it is None if
    there are none.
    """

    ratings: int
    kind: str
    each_s: float | None
    measured: int

    @property
    def total_s(self) -> float | None:
        return None if self.each_s is None else self.each_s * self.ratings


def estimate_people_time(plan: RunConfig, project: Project) -> PeopleTime | None:
    """Return the estimate; None if the run asks nobody. At most one query."""
    ratings = most_ratings(plan)
    if not ratings:
        return None
    timed = Rating.objects.filter(
        run__project=project,
        form=plan.people.form,
        rater__is_simulated=False,
        is_withdrawn=False,
        seconds__gt=0,
    )
    newest = timed.order_by("-pk").values_list("seconds", flat=True)[:NEWEST_RATINGS]
    durations = [seconds for seconds in newest if seconds is not None]
    return PeopleTime(
        ratings,
        FORMS[plan.people.form].summary,
        median(durations) if durations else None,
        len(durations),
    )


def most_ratings(plan: RunConfig) -> int:
    """Return the most ratings that the run asks people for: if all are given before the deadline.

    A run that learns from lessons or replays asks nobody; neither does one with simulated ratings.
    """
    people = plan.people
    if not people.per_group or people.simulated or not plan.samples:
        return 0
    chosen = min(people.per_group, plan.group_size)
    items = chosen
    if people.form in COMPARES:
        items = people.pairs_among(chosen) if people.form == "pairwise" else 1
    maximum = items * people.overlap * plan.groups_per_step * plan.steps
    return min(maximum, people.schedule.decisions) if people.schedule else maximum
