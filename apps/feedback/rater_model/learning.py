"""A run's rater model kept up with its decisions: each is foretold before it is learned, then the model is fitted anew.

The fit is a function of the run's decisions alone, so a process that starts later, or comes second, has the same one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from django.db import connection, transaction
from django.db.models import Max

from apps.feedback.models import Item, Prediction, RaterModel
from apps.feedback.rater_model.answers import Decision
from apps.feedback.rater_model.heard import heard
from apps.feedback.rater_model.learner import RIDGE, Compared, Fitted, Learner
from apps.feedback.rater_model.reading import Seen
from apps.feedback.rater_model.reading_decisions import decided
from apps.feedback.rater_model.replies import replies, seen, topics_of
from apps.feedback.rater_model.standing import standing
from apps.runs.models import Run

MEMORY = 16  # runs whose learner a process keeps
LOCK = 0x7261_7465  # names the lock of a run's rater model among the database's advisory locks


@dataclass
class Known:
    """What this process has learned of a run: ratings by id, None for one that says nothing to learn."""

    learner: Learner = field(default_factory=Learner)
    ratings: dict[int, Decision | None] = field(default_factory=dict)
    fitted: Fitted | None = None
    number: int = 0


_known: dict[int, Known] = {}


def forget() -> None:
    """Start anew, as a process does that has just begun."""
    _known.clear()


def learn(run: Run) -> Known:
    """Take in the run's new decisions; what is known then. `fitted` is None before the first.

    One process at a time per run. A decision that was taken back, changed or set aside since is unlearned: all is learned anew
    without it.
    """
    try:
        with transaction.atomic():
            return _learn(run)
    except BaseException:
        _known.pop(run.pk, None)  # half of it may have been learned already
        raise


def _learn(run: Run) -> Known:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [LOCK, run.pk % 2**31])
    standing_by = list(heard(run).order_by("pk").values_list("pk", flat=True))
    newest = RaterModel.objects.filter(run=run, kind=RIDGE).order_by("-number").first()
    known = _up_to(run, newest, standing_by)
    fresh = decided(run, [pk for pk in standing_by if pk not in known.ratings])
    new = {pk: decision for pk, (decision, _) in fresh.items() if decision is not None}
    if known.fitted is not None and newest is not None:
        _foretell(run, newest, known.fitted, fresh)
    known.ratings |= {pk: decision for pk, (decision, _) in fresh.items()}
    for decision in new.values():
        known.learner.learn(decision)
    if new:
        known.fitted = known.learner.fit()
        known.number = (RaterModel.objects.filter(run=run).aggregate(n=Max("number"))["n"] or 0) + 1
        _store(run, known, max(known.ratings))
    return known


def known_from(run: Run, ratings: Iterable[int], number: int) -> Known:
    """What the model of that number would know had only these been said; nothing is stored."""
    known = Known(number=number)
    known.ratings = {pk: decision for pk, (decision, _) in decided(run, ratings).items()}
    for decision in known.ratings.values():
        if decision is not None:
            known.learner.learn(decision)
    known.fitted = known.learner.fit() if known.learner.decisions else None
    return known


def unsure(run: Run, rollouts: Iterable[int]) -> dict[int, float]:
    """How unsure the run's newest model is of each of these rollouts: its deviation; none before its first fit. Stores nothing."""
    return {pk: deviation for pk, (_, deviation) in foretold(run, rollouts).items()}


def foretold(run: Run, rollouts: Iterable[int]) -> dict[int, tuple[float, float]]:
    """Mean and deviation that the run's newest model gives each of these rollouts; none before its first fit. Stores nothing."""
    newest = RaterModel.objects.filter(run=run, kind=RIDGE).order_by("-number").first()
    if newest is None:
        return {}
    standing_by = heard(run).filter(pk__lte=newest.last_rating_id).order_by("pk")
    known = _up_to(run, newest, list(standing_by.values_list("pk", flat=True)))
    return predicted(run, known, rollouts)


def _up_to(run: Run, newest: RaterModel | None, standing_by: list[int]) -> Known:
    """This process's knowledge, if it is that of the newest model; else learned anew up to that model's last rating."""
    known = _known.get(run.pk)
    if known and known.number == (newest.number if newest else 0) and known.ratings.keys() <= set(standing_by):
        return known
    known = Known(number=newest.number if newest else 0)
    if newest:
        old = decided(run, [pk for pk in standing_by if pk <= newest.last_rating_id])
        known.ratings = {pk: decision for pk, (decision, _) in old.items()}
        for decision in known.ratings.values():
            if decision is not None:
                known.learner.learn(decision)
        known.fitted = known.learner.fit() if known.learner.decisions else None
    while len(_known) >= MEMORY:
        _known.pop(next(iter(_known)))
    _known[run.pk] = known
    return known


def _foretell(run: Run, model: RaterModel, fitted: Fitted, fresh: Mapping[int, tuple[Decision | None, str | None]]) -> None:
    """Keep what the model says of decisions that it has not learned."""
    schedule = run.settings.people.schedule
    all_random = schedule is None or schedule.spread_share == 0
    predictions = []
    for rating, (decision, purpose) in fresh.items():
        if decision is None or purpose == Item.Purpose.REWRITE:
            continue
        mean, deviation = _foretold(fitted, decision)
        is_audit = purpose == Item.Purpose.AUDIT or (all_random and purpose == Item.Purpose.REWARD)
        predictions.append(Prediction(rating_id=rating, rater_model=model, mean=mean, deviation=deviation, is_audit=is_audit))
    Prediction.objects.bulk_create(predictions, ignore_conflicts=True)


def _foretold(fitted: Fitted, decision: Decision) -> tuple[float, float]:
    """Of a number: mean and deviation of what this rater would say. Of a comparison: the share of its pairs put in order, and 0."""
    if not isinstance(decision, Compared):
        mean, deviation = fitted.predict([decision.reply], decision.rater)
        return float(mean[0]), float(deviation[0])
    means, _ = fitted.predict(decision.replies)
    pairs = [(order.better, worse, order.weight) for order in decision.orders for worse in order.worse]
    right = [weight * (1 + np.sign(means[better] - means[worse])) / 2 for better, worse, weight in pairs]
    return float(sum(right) / sum(weight for *_, weight in pairs)), 0.0


def _store(run: Run, known: Known, last_rating: int) -> None:
    RaterModel.objects.create(
        run=run, number=known.number, kind=RIDGE, decisions=known.learner.decisions, last_rating_id=last_rating,
        coefficients=known.fitted.coefficients(), figures=standing(run, known.learner),
    )  # fmt: skip


def predicted(run: Run, known: Known, rollouts: Iterable[int]) -> dict[int, tuple[float, float]]:
    """Mean and deviation of each rollout that can be read, by id."""
    found: dict[int, Seen] = seen(replies(rollouts), topics_of(run.taskset_ids))
    if not found or known.fitted is None:
        return {}
    means, deviations = known.fitted.predict(list(found.values()))
    return {pk: (float(mean), float(deviation)) for pk, mean, deviation in zip(found, means, deviations, strict=True)}
