"""Update a run's rater model: each new decision is predicted, then learned in a new fit.

The fit is a function of the run's decisions alone, so a process that starts later, or comes second,
gets the same one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from django.db import connection, transaction
from django.db.models import Max

from apps.feedback.models import Item, Prediction, RaterModel
from apps.feedback.rater_model.answers import Decision
from apps.feedback.rater_model.learner import RIDGE, ComparedReplies, Fitted, Learner
from apps.feedback.rater_model.plugins import fitted_for
from apps.feedback.rater_model.reading import ReplyFeatures
from apps.feedback.rater_model.reading_decisions import decided
from apps.feedback.rater_model.replies import extract_features_by_rollout, learn_topics, replies
from apps.feedback.rater_model.standing import standing
from apps.feedback.rater_model.training_data import list_learned_ratings
from apps.runs.models import Run

MEMORY = 16  # runs whose learners a process caches
LOCK = 0x7261_7465  # the key of the advisory lock of a run's rater model


@dataclass
class LearnerState:
    """What this process has learned for a run.

    `ratings` holds the decisions by rating id, None for ratings without a value.
    """

    learner: Learner = field(default_factory=Learner)
    ratings: dict[int, Decision | None] = field(default_factory=dict)
    fitted: Fitted | None = None
    number: int = 0


_states: dict[int, LearnerState] = {}


def clear_learning_state() -> None:
    """Clear the state, as in a process that has just begun."""
    _states.clear()


def learn(run: Run) -> LearnerState:
    """Learn the run's new decisions and return the state. `fitted` is None before the first.

    Only one process at a time may do this for a run. If a decision was withdrawn, changed or set
    aside meanwhile, all others are learned again from the start.
    """
    try:
        with transaction.atomic():
            return _learn(run)
    except BaseException:
        _states.pop(run.pk, None)  # the state may be only partly updated
        raise


def _learn(run: Run) -> LearnerState:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [LOCK, run.pk % 2**31])
    standing_by = list(list_learned_ratings(run).order_by("pk").values_list("pk", flat=True))
    newest = RaterModel.objects.filter(run=run, kind=RIDGE).order_by("-number").first()
    state = _up_to(run, newest, standing_by)
    fresh = decided(run, [pk for pk in standing_by if pk not in state.ratings])
    new = {pk: decision for pk, (decision, _) in fresh.items() if decision is not None}
    if state.fitted is not None and newest is not None:
        _save_predictions(run, newest, state.fitted, fresh)
    state.ratings |= {pk: decision for pk, (decision, _) in fresh.items()}
    for decision in new.values():
        state.learner.learn(decision)
    if new:
        fitted = fitted_for(run.settings.people.rater_model, state.learner)
        state.fitted = fitted
        state.number = (RaterModel.objects.filter(run=run).aggregate(n=Max("number"))["n"] or 0) + 1
        _store(run, state, fitted, max(state.ratings))
    return state


def refit(run: Run, ratings: Iterable[int], number: int) -> LearnerState:
    """Return the state of a model of that number with only these ratings; nothing is stored."""
    state = LearnerState(number=number)
    state.ratings = {pk: decision for pk, (decision, _) in decided(run, ratings).items()}
    for decision in state.ratings.values():
        if decision is not None:
            state.learner.learn(decision)
    if state.learner.decisions:
        state.fitted = fitted_for(run.settings.people.rater_model, state.learner)
    return state


def unsure(run: Run, rollouts: Iterable[int]) -> dict[int, float]:
    """Return the newest model's deviation for each rollout; empty before its first fit.

    Stores nothing.
    """
    return {pk: deviation for pk, (_, deviation) in predict_rollouts(run, rollouts).items()}


def predict_rollouts(run: Run, rollouts: Iterable[int]) -> dict[int, tuple[float, float]]:
    """Return the newest model's mean and deviation for each rollout; empty before its first fit.

    Stores nothing.
    """
    newest = RaterModel.objects.filter(run=run, kind=RIDGE).order_by("-number").first()
    if newest is None:
        return {}
    standing_by = list_learned_ratings(run).filter(pk__lte=newest.last_rating_id).order_by("pk")
    state = _up_to(run, newest, list(standing_by.values_list("pk", flat=True)))
    return predicted(run, state, rollouts)


def _up_to(run: Run, newest: RaterModel | None, standing_by: list[int]) -> LearnerState:
    """Return this process's state if it is the newest model's.

    Otherwise learn up to that model's last rating.
    """
    state = _states.get(run.pk)
    if (
        state
        and state.number == (newest.number if newest else 0)
        and state.ratings.keys() <= set(standing_by)
    ):
        return state
    state = LearnerState()
    if newest:
        learned = [pk for pk in standing_by if pk <= newest.last_rating_id]
        state = refit(run, learned, newest.number)
    while len(_states) >= MEMORY:
        _states.pop(next(iter(_states)))
    _states[run.pk] = state
    return state


def _save_predictions(
    run: Run,
    model: RaterModel,
    fitted: Fitted,
    fresh: Mapping[int, tuple[Decision | None, str | None]],
) -> None:
    """Save the model's predictions of decisions that it has not learned."""
    schedule = run.settings.people.schedule
    all_random = schedule is None or schedule.spread_share == 0
    predictions = []
    for rating, (decision, purpose) in fresh.items():
        if decision is None or purpose == Item.Purpose.REWRITE:
            continue
        mean, deviation = _prediction(fitted, decision)
        is_audit = purpose == Item.Purpose.AUDIT or (all_random and purpose == Item.Purpose.REWARD)
        predictions.append(
            Prediction(
                rating_id=rating,
                rater_model=model,
                mean=mean,
                deviation=deviation,
                is_audit=is_audit,
            )
        )
    Prediction.objects.bulk_create(predictions, ignore_conflicts=True)


def _prediction(fitted: Fitted, decision: Decision) -> tuple[float, float]:
    """Return the mean and deviation of the prediction for a value.

    For a comparison, return the share of its pairs that were put in order, and 0.
    """
    if not isinstance(decision, ComparedReplies):
        mean, deviation = fitted.predict([decision.reply], decision.rater)
        return float(mean[0]), float(deviation[0])
    means, _ = fitted.predict(decision.replies)
    pairs = [
        (order.better, worse, order.weight) for order in decision.orders for worse in order.worse
    ]
    right = [
        weight * (1 + np.sign(means[better] - means[worse])) / 2 for better, worse, weight in pairs
    ]
    return float(sum(right) / sum(weight for *_, weight in pairs)), 0.0


def _store(run: Run, state: LearnerState, fitted: Fitted, last_rating: int) -> None:
    RaterModel.objects.create(
        run=run,
        number=state.number,
        kind=RIDGE,
        decisions=state.learner.decisions,
        last_rating_id=last_rating,
        coefficients=fitted.coefficients(),
        metrics=standing(run, state.learner),
    )


def predicted(
    run: Run, state: LearnerState, rollouts: Iterable[int]
) -> dict[int, tuple[float, float]]:
    """Return mean and deviation of each rollout that can be read, by id."""
    features: dict[int, ReplyFeatures] = extract_features_by_rollout(
        replies(rollouts), learn_topics(run.taskset_ids)
    )
    if not features or state.fitted is None:
        return {}
    means, deviations = state.fitted.predict(list(features.values()))
    return {
        pk: (float(mean), float(deviation))
        for pk, mean, deviation in zip(features, means, deviations, strict=True)
    }
