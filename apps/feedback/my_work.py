"""A person's own work: ratings and time by day, what can be changed, and agreement with others.

Only the newest ratings are read, so that no page slows down with older ones. Others' ratings count
only in runs that show them to this person.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from django.db.models import Count, F, Sum
from django.db.models.functions import Left, TruncDate

from apps.accounts.models import User
from apps.feedback.answer_texts import describe_answer
from apps.feedback.forms import FORMS
from apps.feedback.models import ANSWERED, Adjudication, Prediction, Rating
from apps.feedback.quality.decisions import Decision, decisions_about
from apps.feedback.quality.disputes import list_disputes
from apps.feedback.ratings.withdrawal import changeable
from apps.rollouts.models import Rollout
from apps.runs.blind_review import open_among
from apps.runs.models import Run
from apps.runs.people import COMPARES, People

NEWEST = 5_000  # ratings that are counted by day
DAYS = 14
COMPARED = 300  # newest ratings that are compared with others'
DISPUTES = 10
EXCERPT = 80  # characters of a reply
NEAR_ENOUGH = 0.25  # of the scale: one star of five
STARS_ABOVE_ONE = 4  # a value from 0 to 1 is this many stars more than one


@dataclass(frozen=True)
class Day:
    """A person's ratings of one day (UTC), and the seconds that they took."""

    date: date
    ratings: int
    seconds: float


@dataclass(frozen=True)
class Row:
    """One rating as its author sees it: as text, and its result.

    `guess` is the rater model's prediction of it, "" if nobody may see that, or not yet.
    """

    rating: Rating
    words: str
    may_change: bool
    guess: str

    @property
    def rollouts(self) -> int:
        return len(self.rating.members)


@dataclass(frozen=True)
class Agreed:
    """How many of a person's ratings in a run agree with the mean of others'."""

    run: Run
    agreed: int
    of: int

    @property
    def share(self) -> float:
        return self.agreed / self.of


@dataclass(frozen=True)
class Disputed:
    """An item that the person and others rated differently.

    `text` is the beginning of its first reply, `decided` the rating that settles it, if any.
    """

    run: Run
    text: str
    mine: str
    others: Sequence[str]
    decided: str


def days(user: User) -> list[Day]:
    """Return the last days on which the person rated, newest first, among the newest ratings."""
    newest = Rating.objects.filter(rater=user).order_by("-pk").values("pk")[:NEWEST]
    standing = Rating.objects.counting().filter(pk__in=newest)
    by_day = standing.annotate(day=TruncDate("at")).values("day").order_by("-day")
    counted = by_day.annotate(ratings=Count("pk"), seconds=Sum("seconds", default=0.0))
    return [Day(row["day"], row["ratings"], row["seconds"]) for row in counted[:DAYS]]


def rows(user: User, ratings: Sequence[Rating]) -> list[Row]:
    """Return these own ratings with their results. A fixed number of statements."""
    open_to_change = changeable(user)
    guesses_shown = {
        rating.pk for rating in ratings if rating.pk not in open_to_change and _shows_guess(rating)
    }
    guesses = {
        guess.rating_id: guess for guess in Prediction.objects.filter(rating__in=guesses_shown)
    }
    return [
        Row(
            rating,
            describe_answer(rating.form, rating.answer, rating.members),
            rating.pk in open_to_change,
            _guess_in_words(rating, guesses.get(rating.pk)),
        )
        for rating in ratings
    ]


def _shows_guess(rating: Rating) -> bool:
    is_aside = rating.item is not None and rating.item.purpose in ANSWERED
    return rating.run.settings.people.show_guess and not is_aside


def _guess_in_words(rating: Rating, guess: Prediction | None) -> str:
    if guess is None:
        return ""
    if rating.form in COMPARES:
        return f"agreed with {100 * guess.mean:.0f} % of your order"
    if rating.form == "stars":
        return f"{1 + STARS_ABOVE_ONE * guess.mean:.1f} stars"
    return f"{guess.mean:.2f} of 1"


def with_others(user: User) -> tuple[list[Agreed], list[Disputed]]:
    """Return the agreement in each run, and disputed items, if the person may see them."""
    own_ratings = Rating.objects.counting().filter(rater=user, item__isnull=False).order_by("-pk")
    newest = list(own_ratings.values_list("run", "item")[:COMPARED])
    runs = open_among(user, {run for run, _ in newest})
    decisions_by_run = decisions_about({item for run, item in newest if run in runs})
    run_by_id = Run.objects.select_related("project").in_bulk(decisions_by_run)
    agreed = []
    disputed: list[tuple[float, int, Sequence[Decision]]] = []
    for pk, decisions in decisions_by_run.items():
        people = run_by_id[pk].settings.people
        met = list(_comparisons(user, decisions, people))
        if met:
            agreed.append(Agreed(run_by_id[pk], sum(met), len(met)))
        disputed += [
            (dispute.apart, pk, dispute.votes) for dispute in list_disputes(decisions, people)
        ]
    disputed.sort(key=lambda row: -row[0])
    return agreed, _in_words(user, disputed[:DISPUTES], run_by_id)


def _comparisons(user: User, decisions: Iterable[Decision], people: People) -> Iterable[bool]:
    """Yield for each item that others rated too whether the person's values are near theirs."""
    by_item: dict[int, list[Decision]] = defaultdict(list)
    for decision in decisions:
        if not decision.has_known_answer and decision.item is not None:
            by_item[decision.item].append(decision)
    for votes in by_item.values():
        own_values = [_values(vote, people) for vote in votes if vote.rater == user.pk]
        other_values = [_values(vote, people) for vote in votes if vote.rater != user.pk]
        if own_values and other_values and own_values[0]:
            yield all(
                _is_near(own_values[0][rollout], rollout, other_values) for rollout in own_values[0]
            )


def _values(vote: Decision, people: People) -> dict[int, float]:
    return FORMS[vote.form].values(vote.answer, vote.shown, people)


def _is_near(value: float, rollout: int, other_values: Sequence[dict[int, float]]) -> bool:
    rollout_values = [values[rollout] for values in other_values if rollout in values]
    return (
        not rollout_values or abs(value - sum(rollout_values) / len(rollout_values)) <= NEAR_ENOUGH
    )


def _in_words(
    user: User, disputes: Sequence[tuple[float, int, Sequence[Decision]]], runs: dict[int, Run]
) -> list[Disputed]:
    items = [votes[0].item for _, _, votes in disputes]
    settled = Adjudication.objects.filter(item__in=items).annotate(form=F("rating__form"))
    decided = {
        adjudication.item_id: adjudication.rating
        for adjudication in settled.select_related("rating")
    }
    first = {votes[0].unit[0] for _, _, votes in disputes}
    texts = dict(Rollout.objects.filter(pk__in=first).values_list("pk", Left("text", EXCERPT)))
    rows = []
    for _, pk, votes in disputes:
        unit = votes[0].unit
        answers = {vote.rater: describe_answer(vote.form, vote.in_order, unit) for vote in votes}
        item = votes[0].item
        last = decided.get(item) if item is not None else None
        decision = describe_answer(last.form, last.answer, unit) if last else ""
        own_answer = answers.pop(user.pk, "")
        text = texts.get(unit[0], "")
        rows.append(Disputed(runs[pk], text, own_answer, list(answers.values()), decision))
    return rows
