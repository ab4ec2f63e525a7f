"""Reliability of a run's raters, learned from all their decisions so far.

For categories (thumbs, pairs) it is the one-coin model of Dawid and Skene: how often somebody is
right. For everything else it is bias and noise on the scale of 0 to 1. Only the newest decisions
are read, and the result is cached per process until there are a few more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from django.db.models import Q

from apps.feedback.forms import FORMS, Answer
from apps.feedback.models import ASIDE, Rating
from apps.runs.models import Run
from apps.runs.people import People
from apps.statistics import scale_raters
from apps.statistics.dawid_skene import one_coin, vote_weights

NEWEST = 5_000  # decisions of one form from which reliability is learned
MORE = 0.02  # share of new decisions at which all are read again
MEMORY = 64  # runs and forms that a process caches
NEW_RATER = 0.8  # an unknown rater's accuracy: the prior of `one_coin`
# Weight of a rater at chance, so that rollouts that only such raters judged have a value.
MIN_PROBABILITY = 0.01
KINDS = {"thumbs": 2, "pairwise": 4}  # the first, a tie, the second, both bad


@dataclass(frozen=True)
class WeightedDecision:
    """One decision with its reliability: its unbiased value, its weight, its value's variance."""

    value: float
    weight: float
    variance: float


@dataclass(frozen=True)
class Quality:
    """The raters of one form.

    By rater's id: `accuracy` for a form with categories, `bias` and `variance` for one with a
    scale. `decisions` holds, by rater, the number of decisions that this was learned from.
    """

    kinds: int  # 0: a scale
    accuracy: Mapping[int, float]
    bias: Mapping[int, float]
    variance: Mapping[int, float]
    decisions: Mapping[int, int]
    common: float  # variance of an unknown rater

    def trust(self, rater: int, value: float) -> WeightedDecision:
        if self.kinds:
            accuracy = self.accuracy.get(rater, NEW_RATER)
            weight = max(float(vote_weights(np.array([accuracy]), self.kinds)[0]), MIN_PROBABILITY)
            return WeightedDecision(value, weight, accuracy * (1 - accuracy))
        variance = self.variance.get(rater, self.common)
        return WeightedDecision(value - self.bias.get(rater, 0.0), 1 / variance, variance)

    def share_of_weight(self) -> dict[int, float]:
        """Return each rater's vote weight relative to the mean of all."""
        weights = {rater: self.trust(rater, 0.0).weight for rater in self.decisions}
        middle = sum(weights.values()) / len(weights) if weights else 1.0
        return {rater: weight / middle for rater, weight in weights.items()}


# Newest rating id, count, result.
_qualities: dict[tuple[int, str], tuple[int, int, Quality]] = {}


def clear_quality_cache() -> None:
    """Clear the cache, as in a process that has just begun."""
    _qualities.clear()


def load_quality(run: Run, form: str, people: People) -> Quality:
    """Return the reliability of the run's raters in this form.

    One statement while the cached result is fresh, otherwise two.
    """
    newest, count, quality = _qualities.get((run.pk, form), (0, 0, None))
    needed = max(1, round(MORE * count))
    if (
        quality is None
        or Rating.objects.filter(_deciding(run, form), pk__gt=newest)[:needed].count() >= needed
    ):
        rows = list(
            Rating.objects.counting()
            .filter(_deciding(run, form))
            .order_by("-pk")
            .values_list("pk", "rater", "answer", "shown", "rollout")[:NEWEST]
        )
        newest = max((row[0] for row in rows), default=0)
        quality = fitted(form, people, [row[1:] for row in rows])
        while len(_qualities) >= MEMORY:
            _qualities.pop(next(iter(_qualities)))
        _qualities[run.pk, form] = newest, len(rows), quality
    return quality


def _deciding(run: Run, form: str) -> Q:
    return Q(run=run, form=form) & (Q(item=None) | ~Q(item__purpose__in=ASIDE))


def fitted(
    form: str, people: People, rows: Sequence[tuple[int, Answer, Sequence[int], int | None]]
) -> Quality:
    """Compute reliability from decisions (rater, answer, shown, rollout)."""
    decided = [
        (rater, answer, list(shown) or [pk for pk in (rollout,) if pk is not None])
        for rater, answer, shown, rollout in rows
    ]
    if form in KINDS:
        return _by_category(form, decided)
    worth = [(rater, FORMS[form].values(answer, shown, people)) for rater, answer, shown in decided]
    return _by_scale(
        [(rollout, rater, value) for rater, values in worth for rollout, value in values.items()]
    )


def _by_category(form: str, decided: Sequence[tuple[int, Answer, list[int]]]) -> Quality:
    if not decided:
        return Quality(KINDS[form], {}, {}, {}, {}, 0.0)
    units = [str(sorted(shown)) for _, _, shown in decided]
    _, unit = np.unique(units, return_inverse=True)
    raters, rater = np.unique([rater for rater, _, _ in decided], return_inverse=True)
    categories = np.array([category(form, answer, shown) for _, answer, shown in decided])
    _, accuracy = one_coin(unit, rater, categories, KINDS[form])
    decisions = _counts(raters, rater)
    return Quality(KINDS[form], _by_rater(raters, accuracy), {}, {}, decisions, 0.0)


def category(form: str, answer: Answer, shown: Sequence[int]) -> int:
    """Return the answer's category, independent of the sides on which rollouts were shown."""
    if form == "thumbs":
        return int(answer["up"])
    if "both_bad" in answer:
        return 3
    turned = answer["preference"] if shown[0] < shown[1] else -answer["preference"]
    return int(np.sign(turned)) + 1


def _by_scale(worth: Sequence[tuple[int, int, float]]) -> Quality:
    if not worth:
        return Quality(0, {}, {}, {}, {}, 1.0)
    _, unit = np.unique([rollout for rollout, _, _ in worth], return_inverse=True)
    raters, rater = np.unique([rater for _, rater, _ in worth], return_inverse=True)
    model = scale_raters.fit_scale_raters(unit, rater, np.array([value for _, _, value in worth]))
    return Quality(
        0,
        {},
        _by_rater(raters, model.bias),
        _by_rater(raters, model.variance),
        _counts(raters, rater),
        model.common,
    )


def _by_rater(raters: np.ndarray, metrics: np.ndarray) -> dict[int, float]:
    return {int(rater): float(metric) for rater, metric in zip(raters, metrics, strict=True)}


def _counts(raters: np.ndarray, rater: np.ndarray) -> dict[int, int]:
    return {int(pk): int(count) for pk, count in zip(raters, np.bincount(rater), strict=True)}
