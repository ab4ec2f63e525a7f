"""How far to believe each of a run's raters, learned from all that they have decided of it so far.

Categories (thumbs, pairs) by Dawid and Skene's one coin: how often somebody is right. Everything else by bias and noise on the
scale of 0 to 1. Read from the newest decisions only, and kept by each process until there are a few more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from django.db.models import Q

from apps.feedback.forms import FORMS, Answer
from apps.feedback.models import ASIDE, Rating
from apps.feedback.statistics import scale_raters
from apps.feedback.statistics.dawid_skene import one_coin, vote_weights
from apps.runs.models import Run
from apps.runs.people import People

NEWEST = 5_000  # decisions of one form that raters are known by
MORE = 0.02  # of the decisions known: when so many have come, they are read again
MEMORY = 64  # runs and forms that a process keeps
NEW_RATER = 0.8  # how often somebody unknown is right: the prior of `one_coin`
LEAST = 0.01  # what a rater at chance still weighs, so that what only such raters decided has a value
KINDS = {"thumbs": 2, "pairwise": 4}  # the first, a tie, the second, both bad


@dataclass(frozen=True)
class Trust:
    """One decision as it counts: its value freed of bias, its weight, and its variance (of the value)."""

    value: float
    weight: float
    variance: float


@dataclass(frozen=True)
class Quality:
    """Raters of one form. Of a form with categories `accuracy`, of one with a scale `bias` and `variance`, by rater's id.

    `decisions`: by rater, how many of the newest this was learned from.
    """

    kinds: int  # 0: a scale
    accuracy: Mapping[int, float]
    bias: Mapping[int, float]
    variance: Mapping[int, float]
    decisions: Mapping[int, int]
    common: float  # variance of somebody unknown

    def trust(self, rater: int, value: float) -> Trust:
        if self.kinds:
            accuracy = self.accuracy.get(rater, NEW_RATER)
            weight = max(float(vote_weights(np.array([accuracy]), self.kinds)[0]), LEAST)
            return Trust(value, weight, accuracy * (1 - accuracy))
        variance = self.variance.get(rater, self.common)
        return Trust(value - self.bias.get(rater, 0.0), 1 / variance, variance)

    def share_of_weight(self) -> dict[int, float]:
        """What each rater's vote weighs beside the mean of all: 1 is as much as anybody."""
        weights = {rater: self.trust(rater, 0.0).weight for rater in self.decisions}
        middle = sum(weights.values()) / len(weights) if weights else 1.0
        return {rater: weight / middle for rater, weight in weights.items()}


_known: dict[tuple[int, str], tuple[int, int, Quality]] = {}  # newest rating, how many, what they told


def forget() -> None:
    """Start anew, as a process does that has just begun."""
    _known.clear()


def quality_of(run: Run, form: str, people: People) -> Quality:
    """The run's raters in this form; one statement while what is known is still fresh, else two."""
    newest, count, quality = _known.get((run.pk, form), (0, 0, None))
    wanted = max(1, round(MORE * count))
    if quality is None or Rating.objects.filter(_deciding(run, form), pk__gt=newest)[:wanted].count() >= wanted:
        rows = list(
            Rating.objects.counting().filter(_deciding(run, form)).order_by("-pk")
            .values_list("pk", "rater", "answer", "shown", "rollout")[:NEWEST]
        )  # fmt: skip
        newest, quality = max((row[0] for row in rows), default=0), fitted(form, people, [row[1:] for row in rows])
        while len(_known) >= MEMORY:
            _known.pop(next(iter(_known)))
        _known[run.pk, form] = newest, len(rows), quality
    return quality


def _deciding(run: Run, form: str) -> Q:
    return Q(run=run, form=form) & (Q(item=None) | ~Q(item__purpose__in=ASIDE))


def fitted(form: str, people: People, rows: Sequence[tuple[int, Answer, Sequence[int], int | None]]) -> Quality:
    """From decisions (rater, answer, shown, rollout)."""
    decided = [(rater, answer, list(shown) or [rollout]) for rater, answer, shown, rollout in rows]
    if form in KINDS:
        return _by_category(form, decided)
    worth = [(rater, FORMS[form].values(answer, shown, people)) for rater, answer, shown in decided]
    return _by_scale([(rollout, rater, value) for rater, values in worth for rollout, value in values.items()])


def _by_category(form: str, decided: Sequence[tuple[int, Answer, list[int]]]) -> Quality:
    if not decided:
        return Quality(KINDS[form], {}, {}, {}, {}, 0.0)
    _, unit = np.unique([str(sorted(shown)) for _, _, shown in decided], return_inverse=True)
    raters, rater = np.unique([rater for rater, _, _ in decided], return_inverse=True)
    said = np.array([category(form, answer, shown) for _, answer, shown in decided])
    _, accuracy = one_coin(unit, rater, said, KINDS[form])
    return Quality(KINDS[form], _by(raters, accuracy), {}, {}, _counts(raters, rater), 0.0)


def category(form: str, answer: Answer, shown: Sequence[int]) -> int:
    """Which kind of answer it is, whatever side a rollout was shown on."""
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
    model = scale_raters.fit(unit, rater, np.array([value for _, _, value in worth]))
    return Quality(0, {}, _by(raters, model.bias), _by(raters, model.variance), _counts(raters, rater), model.common)


def _by(raters: np.ndarray, figures: np.ndarray) -> dict[int, float]:
    return {int(rater): float(figure) for rater, figure in zip(raters, figures, strict=True)}


def _counts(raters: np.ndarray, rater: np.ndarray) -> dict[int, int]:
    return {int(one): int(count) for one, count in zip(raters, np.bincount(rater), strict=True)}
