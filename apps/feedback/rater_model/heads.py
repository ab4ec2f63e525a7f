"""A trained scalar head in place of the ridge regression, once there are enough decisions.

It is the base policy's body with one output, trained by a process beside the refiner
(`workers.rater_heads`) on four of five decisions. The fifth calibrates its score to people's
values, and shows whether it orders replies at least as well as the ridge. Until it does, the ridge
is used.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from django.db import transaction
from django.db.models import Max

from apps.accounts.locking import retrying
from apps.feedback.forms import FORMS, Answer
from apps.feedback.models import RaterModel
from apps.feedback.rater_model.answers import ORDERS
from apps.feedback.rater_model.audits import Audit, pair_accuracy, share_right
from apps.feedback.rater_model.learner import Learner
from apps.feedback.rater_model.linear import STEEPNESS, Decisions, fit_posterior
from apps.feedback.rater_model.reading_decisions import decided
from apps.feedback.rater_model.training_data import list_learned_ratings
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from apps.runs.people import People

KIND = "scalar_head"
HELD_OUT = 5  # one decision in this many is held out
# a new head is trained once there are so many times the decisions of the last, or of the last try
GROWTH = 1.25
# Scores of (prompt, reply) pairs by the weights in a folder; None for an unreadable one.
Judge = Callable[[Path, Sequence[tuple[list[dict], str]]], Sequence[float | None]]


@dataclass(frozen=True)
class Reply:
    """A prompt's messages, as JSON, and the answer."""

    prompt: str
    text: str

    @property
    def messages(self) -> list[dict]:
        return json.loads(self.prompt)


@dataclass(frozen=True)
class HeadDecision:
    """A decision to train on: one reply with its value, or several with (better, worse) pairs.

    Pairs refer to the positions of the replies.
    """

    rating: int
    replies: tuple[Reply, ...]
    value: float | None = None
    pairs: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Head:
    """A trained head; people's value is base + slope × score, ± deviation."""

    number: int
    folder: Path
    base: float
    slope: float
    deviation: float

    def value(self, score: float) -> float:
        return self.base + self.slope * score


def find_newest_head(run: Run) -> Head | None:
    """Return the run's newest head, if it was at least as good as the ridge."""
    row = RaterModel.objects.filter(run=run, kind=KIND).order_by("-number").first()
    if row is None or not row.metrics["is_used"]:
        return None
    stored = row.coefficients
    return Head(
        row.number, Path(stored["folder"]), stored["base"], stored["slope"], stored["deviation"]
    )


def count_learnable(run: Run) -> int:
    """Return how many decisions a head could be trained on now.

    It counts what `list_learnable_decisions` finds, without reading the texts.
    """
    rows = list_learned_ratings(run).values_list("form", "answer", "shown", "rollout")
    people = run.settings.people
    return sum(
        _decided_value(form, answer, list(shown) or [rollout], people) is not None
        for form, answer, shown, rollout in rows
    )


def count_due_decisions(run: Run, tried: int = 0) -> int | None:
    """Return the number of learnable decisions for a (new) head, or None if no head is due.

    `tried` is the number at the last attempt, whatever its result. A replay has no heads of its
    own; it uses the rewards of the run that it replays.
    """
    section = run.settings.people.rater_model
    if section is None or section.kind != KIND or run.settings.replay:
        return None
    last = RaterModel.objects.filter(run=run, kind=KIND).aggregate(n=Max("decisions"))["n"] or 0
    threshold = max(section.head_min_ratings, GROWTH * max(last, tried))
    if (
        list_learned_ratings(run).count() < threshold
    ):  # learnable decisions are a part of all decisions
        return None
    learnable = count_learnable(run)
    return learnable if learnable >= threshold else None


def judge_with_head(
    head: Head, judge: Judge, rollouts: Iterable[int]
) -> dict[int, tuple[float, float]]:
    """Return mean and deviation of each rollout that the head can read, by id."""
    rows = list(
        Rollout.objects.filter(pk__in=list(rollouts)).values_list(
            "pk", "group__task__prompt", "text"
        )
    )
    scores = judge(head.folder, [(prompt, text) for _, prompt, text in rows])
    pairs = zip(rows, scores, strict=True)
    return {
        pk: (head.value(score), head.deviation) for (pk, _, _), score in pairs if score is not None
    }


def is_held_out(decision: HeadDecision) -> bool:
    return decision.rating % HELD_OUT == 0


def list_learnable_decisions(run: Run) -> list[HeadDecision]:
    """Return people's decisions about the run's replies with a value or an order, oldest first."""
    rows = list(
        list_learned_ratings(run)
        .order_by("pk")
        .values_list("pk", "form", "answer", "shown", "rollout")
    )
    members = {pk: list(shown) or [rollout] for pk, _, _, shown, rollout in rows}
    texts = Rollout.objects.filter(
        pk__in={r for rollout_ids in members.values() for r in rollout_ids}
    )
    replies = {
        pk: Reply(json.dumps(prompt), text)
        for pk, prompt, text in texts.values_list("pk", "group__task__prompt", "text")
    }
    decisions = [
        _build_decision(pk, form, answer, [replies[r] for r in members[pk]], members[pk], run)
        for pk, form, answer, _, _ in rows
    ]
    return [decision for decision in decisions if decision]


def _build_decision(
    rating: int, form: str, answer: Answer, replies: Sequence[Reply], shown: list[int], run: Run
) -> HeadDecision | None:
    learned = _decided_value(form, answer, shown, run.settings.people)
    if learned is None:
        return None
    if form == "rewrite":
        replies = (Reply(replies[0].prompt, answer["text"]), replies[0])
    return HeadDecision(rating, tuple(replies), *learned)


def _decided_value(
    form: str, answer: Answer, shown: list[int], people: People
) -> tuple[float | None, tuple[tuple[int, int], ...]] | None:
    """Return a value, or (better, worse) pairs of positions; None if there is neither.

    A rewrite ranks before the reply that it rewrites.
    """
    if form in ORDERS:
        pairs = tuple(
            (o.better, w) for o in ORDERS[form](answer, shown) for w in o.worse if o.weight > 0.5
        )
        return (None, pairs) if pairs else None
    if form == "rewrite":
        return None, ((0, 1),)
    value = FORMS[form].values(answer, shown, people).get(shown[0])
    return None if value is None else (value, ())


@retrying
def store_head(
    run: Run, folder: Path, decisions: Sequence[HeadDecision], scores: Mapping[Reply, float | None]
) -> RaterModel:
    """Save the head with its calibration and its accuracy on held-out data beside the ridge's."""
    scored = {reply: score for reply, score in scores.items() if score is not None}
    fresh = [
        decision
        for decision in decisions
        if is_held_out(decision) and all(reply in scored for reply in decision.replies)
    ]
    base, slope, deviation = _reading(fresh, scored)
    accuracy = _accuracy(
        fresh, {decision.rating: [scored[r] for r in decision.replies] for decision in fresh}
    )
    ridge = _ridge_accuracy(run, fresh)
    is_used = accuracy.share is not None and accuracy.share >= (ridge.share or 0.0) and slope > 0
    with transaction.atomic():
        Run.locked(run.pk)
        number = (RaterModel.objects.filter(run=run).aggregate(n=Max("number"))["n"] or 0) + 1
        return RaterModel.objects.create(
            run=run,
            number=number,
            kind=KIND,
            decisions=len(decisions),
            last_rating_id=decisions[-1].rating,
            coefficients={
                "folder": str(folder),
                "base": base,
                "slope": slope,
                "deviation": deviation,
            },
            metrics={
                "is_used": bool(is_used),
                "accuracy": asdict(accuracy),
                "ridge": asdict(ridge),
            },
        )


def _reading(
    fresh: Sequence[HeadDecision], scores: Mapping[Reply, float]
) -> tuple[float, float, float]:
    """Return (base, slope, deviation) of people's value by the score.

    With comparisons alone, scores are in units of odds already.
    """
    valued = [decision for decision in fresh if decision.value is not None]
    if not valued:
        return 0.5, 1 / STEEPNESS, 0.0
    table = np.array([[scores[decision.replies[0]]] for decision in valued])
    posterior = fit_posterior(Decisions(table, np.array([decision.value for decision in valued])))
    slope = float(posterior.weights[0])
    return (
        float(posterior.intercept - slope * posterior.centre[0]),
        slope,
        float(posterior.predict(table)[1].mean()),
    )


def _accuracy(fresh: Sequence[HeadDecision], scores: Mapping[int, Sequence[float]]):
    """Return the accuracy on pairs of values, or, with comparisons alone, on comparisons."""
    valued = [
        Audit(scores[decision.rating][0], decision.value)
        for decision in fresh
        if decision.value is not None
    ]
    if valued:
        return pair_accuracy(valued)
    compared = [
        [
            np.sign(scores[decision.rating][b] - scores[decision.rating][w])
            for b, w in decision.pairs
        ]
        for decision in fresh
        if decision.pairs
    ]
    return share_right([float(np.mean([(1 + sign) / 2 for sign in signs])) for signs in compared])


def _ridge_accuracy(run: Run, fresh: Sequence[HeadDecision]):
    """Return the accuracy of a ridge fitted without the held-out decisions."""
    decisions = decided(run, list_learned_ratings(run).values_list("pk", flat=True))
    held_out_ratings = {held_out_decision.rating for held_out_decision in fresh}
    learner = Learner()
    for rating, (decision, _) in decisions.items():
        if decision is not None and rating % HELD_OUT:
            learner.learn(decision)
    means = {}
    if learner.decisions:
        fitted = learner.fit()
        for rating in held_out_ratings & decisions.keys():
            decision, _ = decisions[rating]
            if decision is not None:
                replies = decision.replies if hasattr(decision, "replies") else [decision.reply]
                means[rating] = fitted.predict(list(replies))[0].tolist()
    return _accuracy(
        [held_out_decision for held_out_decision in fresh if held_out_decision.rating in means],
        means,
    )
