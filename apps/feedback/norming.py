"""The norming round of a run: items that every rater rates first, each then explained."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q, QuerySet

from apps.accounts.models import Membership, User
from apps.feedback.known_answers import is_met
from apps.feedback.known_items import AnsweredItem, count_known_answers
from apps.feedback.models import NORMING, Item, Rating
from apps.runs.models import Run


@dataclass(frozen=True)
class Place:
    """The number of an item in its round, from 1, and the number of items in the round."""

    number: int
    of: int


@dataclass(frozen=True)
class Rater:
    """A person in the round: how many items they rated, and how many correctly."""

    name: str
    done: int
    met: int
    last_at: datetime | None

    @property
    def share(self) -> float | None:
        return self.met / self.done if self.done else None


@dataclass(frozen=True)
class Round:
    """The items in force with their answers, and the people who may rate in the run."""

    items: Sequence[AnsweredItem]
    raters: Sequence[Rater]

    @property
    def waiting(self) -> list[Rater]:
        """Return the people who have not rated all items."""
        return [rater for rater in self.raters if rater.done < len(self.items)]


def norming_items(run: Run | int) -> QuerySet[Item]:
    """Return the run's norming items in force, in the order in which raters get them."""
    return Item.objects.filter(run=run, purpose=NORMING, state=Item.State.OPEN).order_by("pk")


def place_in_round(run_id: int, item_id: int) -> Place:
    """Return the place of a norming item in its run's round. One statement."""
    before = Count("pk", filter=Q(pk__lte=item_id))
    counted = norming_items(run_id).order_by().aggregate(number=before, of=Count("pk"))
    return Place(counted["number"], counted["of"])


def round_of(run: Run) -> Round:
    """Return the run's norming round with everybody's results. Four statements at most."""
    items = list(norming_items(run))
    if not items:
        return Round([], [])
    people = run.settings.people
    expected = {item.pk: item for item in items}
    by_item: dict[int, list[Rating]] = {}
    ratings = Rating.objects.counting().filter(item__in=expected)
    for rating in ratings.order_by("pk").only(
        "item_id", "rater_id", "form", "answer", "shown", "at"
    ):
        by_item.setdefault(rating.rater_id, []).append(rating)
    return Round(
        count_known_answers(run, items),
        [
            Rater(
                person.username,
                len(person_ratings := by_item.get(person.pk, [])),
                sum(
                    is_met(expected[rating.item_id], rating, people)
                    for rating in person_ratings
                    if rating.item_id
                ),
                person_ratings[-1].at if person_ratings else None,
            )
            for person in _askable_people(run)
        ],
    )


def _askable_people(run: Run) -> list[User]:
    """Return the people whom the run may ask: those it names, else all raters of its project."""
    raters = User.objects.filter(
        is_active=True,
        is_simulated=False,
        memberships__project=run.project_id,
        memberships__role__in=Membership.MAY_RATE,
    )
    named_raters = run.settings.people.raters
    if not (named_raters.people or named_raters.groups):
        return list(raters.order_by("username"))
    by_group = raters.filter(groups__name__in=named_raters.groups).values("pk")
    people = raters.filter(username__in=named_raters.people) | raters.filter(pk__in=by_group)
    return list(people.distinct().order_by("username"))
