"""Statistics of each of a run's raters: number, pace, reliability, and gold answers met."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from django.db.models.functions import Length

from apps.feedback.known_answers import meets_known_answer
from apps.feedback.models import Item
from apps.feedback.quality.decisions import Decision
from apps.feedback.rater_quality import Quality
from apps.rollouts.models import Rollout
from apps.runs.people import COMPARES, People
from apps.statistics.intervals import wilson

FASTEST_READER = 50  # characters a second: twice as fast as practised readers
QUICKEST_S = 1.0  # a floor for any text, however short
TIMED = 10  # the fewest timed decisions to call a rater fast
PLACED = 20  # the fewest comparisons to call a rater biased
MINUTE_S = 60.0
SAMPLED = 300  # newest decisions whose text lengths are measured


@dataclass(frozen=True)
class KnownAnswersMet:
    """The number of known answers met, of those decided, with Wilson's interval."""

    met: int
    of: int

    @property
    def share(self) -> float | None:
        return self.met / self.of if self.of else None

    @property
    def bounds(self) -> tuple[float, float] | None:
        return wilson(self.met, self.of)


@dataclass(frozen=True)
class SideBias:
    """A rater's bias to the side shown first: how often that side was preferred in comparisons.

    `expected` is the number without any bias.
    """

    first: float
    of: int
    expected: float

    @property
    def share(self) -> float | None:
        return self.first / self.of if self.of else None

    @property
    def bounds(self) -> tuple[float, float] | None:
        return wilson(self.first, self.of)

    @property
    def is_leaning(self) -> bool:
        """Tell whether the number is further from the expected one than chance explains."""
        if self.of < PLACED or self.bounds is None:
            return False
        low, high = self.bounds
        return not low <= self.expected <= high


@dataclass(frozen=True)
class Pace:
    """The time that decisions take; a rater whose median is below `bound_s` has not read.

    `characters` is the median length from which the bound was computed.
    """

    seconds: float | None
    bound_s: float
    characters: int


@dataclass(frozen=True)
class RaterMetrics:
    """The statistics of one rater.

    `weight` is that of a vote, 1 being the mean; bias and noise are on the scale of 0 to 1.
    `unclaimed` counts decisions about replies that were not assigned to this person, such as stars
    on the live wall.
    """

    name: str
    is_simulated: bool
    decisions: int
    seconds: float | None
    is_fast: bool
    gold: KnownAnswersMet
    attention: KnownAnswersMet
    leaning: SideBias
    weight: float | None
    accuracy: float | None
    bias: float | None
    noise: float | None
    unclaimed: int
    max_per_minute: int


def measure_pace(decisions: Sequence[Decision]) -> Pace:
    """Return how long decisions take, and how long they must take at least; one statement."""
    sample = decisions[:SAMPLED]
    lengths = dict(
        Rollout.objects.filter(
            pk__in={rollout for decision in sample for rollout in decision.shown}
        )
        .annotate(length=Length("text"))
        .values_list("pk", "length")
    )
    text_lengths = [
        sum(lengths.get(rollout, 0) for rollout in decision.shown) for decision in sample
    ]
    characters = round(median(text_lengths)) if text_lengths else 0
    timed = [decision.seconds for decision in decisions if decision.seconds is not None]
    return Pace(
        median(timed) if timed else None, max(QUICKEST_S, characters / FASTEST_READER), characters
    )


def raters(
    decisions: Sequence[Decision], pace: Pace, quality: Quality, people: People
) -> list[RaterMetrics]:
    """Return the statistics of everybody who decided, the most active first."""
    decisions_by_rater: dict[int, list[Decision]] = defaultdict(list)
    for decision in decisions:
        decisions_by_rater[decision.rater].append(decision)
    weights = quality.share_of_weight()
    metrics = [
        _metrics(rater, rater_decisions, pace, quality, weights.get(rater), people)
        for rater, rater_decisions in decisions_by_rater.items()
    ]
    return sorted(metrics, key=lambda row: (-row.decisions, row.name))


def _metrics(
    rater: int,
    decisions: list[Decision],
    pace: Pace,
    quality: Quality,
    weight: float | None,
    people: People,
) -> RaterMetrics:
    timed = [decision.seconds for decision in decisions if decision.seconds is not None]
    seconds = median(timed) if timed else None
    variance = quality.variance.get(rater)
    return RaterMetrics(
        decisions[0].name,
        decisions[0].is_simulated,
        len(decisions),
        seconds,
        seconds is not None and len(timed) >= TIMED and seconds < pace.bound_s,
        _count_met(decisions, Item.Purpose.GOLD, people),
        _count_met(decisions, Item.Purpose.ATTENTION, people),
        leaning(decisions),
        weight,
        quality.accuracy.get(rater),
        quality.bias.get(rater),
        None if variance is None else variance**0.5,
        sum(not decision.is_claimed for decision in decisions),
        max_per_minute([decision.at for decision in decisions]),
    )


def max_per_minute(times: Iterable[float]) -> int:
    """Return the largest number of decisions, at `times` in seconds, within any 60 seconds."""
    largest = 0
    first = 0
    ordered = sorted(times)
    for last, at in enumerate(ordered):
        while at - ordered[first] >= MINUTE_S:
            first += 1
        largest = max(largest, last - first + 1)
    return largest


def _count_met(decisions: Iterable[Decision], purpose: str, people: People) -> KnownAnswersMet:
    """Count the known answers met.

    Only an answer in the item's own form can meet it; a flag cannot.
    """
    decided = [decision for decision in decisions if decision.purpose == purpose]
    right = [
        "reason" not in decision.answer
        and meets_known_answer(
            decision.form, decision.answer, decision.expected, list(decision.shown), people
        )
        for decision in decided
    ]
    return KnownAnswersMet(sum(right), len(decided))


def leaning(decisions: Iterable[Decision]) -> SideBias:
    """Return the bias to the first side over comparisons with a preference.

    A tie for the best counts its share.
    """
    first = 0.0
    of = 0
    expected = 0.0
    for decision in decisions:
        best = (
            _best_replies(decision)
            if decision.form in COMPARES and not decision.has_known_answer
            else set()
        )
        if best and len(best) < len(decision.shown):
            first += (decision.shown[0] in best) / len(best)
            expected += 1 / len(decision.shown)
            of += 1
    return SideBias(first, of, expected / of if of else 0.0)


def _best_replies(decision: Decision) -> set[int]:
    answer = decision.answer
    match decision.form:
        case "pairwise":
            preference = answer.get("preference", 0)
            return {decision.shown[preference > 0]} if preference else set()
        case "ranking":
            return {int(rollout) for rollout, rank in answer["ranks"].items() if rank == 1}
        case "best_worst":
            return {answer["best"]}
    return set()
