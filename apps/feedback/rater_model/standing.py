"""The state of a run's rater model: its audits, people's agreement, and alarms."""

import itertools
from dataclasses import asdict, dataclass

from django.db.models import Q

from apps.feedback.forms import FORMS
from apps.feedback.models import ANSWERED, Prediction, Rating, RolloutBaseNll
from apps.feedback.rater_model.audits import (
    RECENT,
    WINDOW,
    Accuracy,
    Audit,
    alarms,
    audit_light,
    gap,
    pair_accuracy,
    share_right,
)
from apps.feedback.rater_model.learner import Learner
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from apps.runs.people import COMPARES, People

REPEATS_LOOKED_AT = 2_000  # newest decisions searched for repeats
_Values = dict[int, float]
_RaterValues = tuple[int, _Values]  # the rater, and values by rollout


def standing(run: Run, learner: Learner) -> dict[str, object]:
    """Return the metrics stored with a fit: plain numbers, None with too few decisions."""
    people = run.settings.people
    audits, comparisons = load_newest_audits(run)
    accuracy = share_right(comparisons) if people.form in COMPARES else pair_accuracy(audits)
    distinct = distinct_share(run)
    recent = mean_recent_value(learner)
    agreed = measure_agreement(run)
    return {
        "accuracy": asdict(accuracy),
        "light": audit_light(accuracy),
        "gap": gap(audits),
        "distinct": distinct,
        "surprise": mean_surprise(run),
        "human_mean": recent,
        "agreement": asdict(agreed.people),
        "again": asdict(agreed.again),
        "alarms": alarms(audits, distinct, recent),
    }


def load_newest_audits(run: Run) -> tuple[list[Audit], list[float]]:
    """Return the newest audits of values, in order, and the predicted shares of comparisons."""
    people = run.settings.people
    rows = Prediction.objects.filter(
        rating__run=run, is_audit=True, rating__is_current=True, rating__is_withdrawn=False
    )
    names = ("mean", "rating__form", "rating__answer", "rating__rollout")
    audits = []
    shares = []
    for mean, form, answer, rollout in reversed(
        rows.order_by("-rating")[:WINDOW].values_list(*names)
    ):
        if form in COMPARES:
            shares.append(mean)
        elif (value := FORMS[form].values(answer, [rollout], people).get(rollout)) is not None:
            audits.append(Audit(mean, value))
    return audits, shares


@dataclass(frozen=True)
class Agreement:
    """The share of pairs that a second decision about the same replies ordered as the first did.

    It is given for second decisions of the same person and of another one.
    """

    people: Accuracy  # another person's: the ceiling for a model of people
    again: Accuracy  # the same person's


def measure_agreement(run: Run) -> Agreement:
    """Return the agreement among the newest decisions of the run's form.

    Known answers and adjudications, whose author saw the votes, are left out.
    """
    people = run.settings.people
    by_replies: dict[tuple[int, ...], list[_RaterValues]] = {}
    rows = Rating.objects.counting().filter(
        Q(item=None) | ~Q(item__purpose__in=ANSWERED), run=run, form=people.form, adjudication=None
    )
    for rater, answer, shown, rollout in rows.order_by("-pk").values_list(
        "rater", "answer", "shown", "rollout"
    )[:REPEATS_LOOKED_AT]:
        shown = list(shown) or [rollout]
        by_replies.setdefault(tuple(sorted(shown)), []).append(
            (rater, FORMS[people.form].values(answer, shown, people))
        )
    decisions = [list(reversed(newest_first)) for newest_first in reversed(by_replies.values())]
    by_others = _first_pairs(decisions, is_same=False)
    by_same = _first_pairs(decisions, is_same=True)
    return Agreement(_alike(by_others, people), _alike(by_same, people))


def _first_pairs(
    decisions: list[list[_RaterValues]], is_same: bool
) -> list[tuple[_Values, _Values]]:
    """Return the first two decisions about each set of replies, oldest first.

    Both are by the same person, or by different ones; replies without two such are left out.
    """
    pairs = []
    for about_replies in decisions:
        for (rater, first), (other_rater, second) in itertools.combinations(about_replies, 2):
            if (rater == other_rater) == is_same:
                pairs.append((first, second))
                break
    return pairs


def _alike(twice: list[tuple[_Values, _Values]], people: People) -> Accuracy:
    if people.form in COMPARES:
        shares = []
        for first, second in twice:
            common = [Audit(second[key], first[key]) for key in first if key in second]
            share = pair_accuracy(common).share
            if share is not None:
                shares.append(share)
        return share_right(shares)
    # Values of single replies, which are compared across all decisions.
    pairs = [
        Audit(second[rollout], first[rollout])
        for first, second in twice
        for rollout in first
        if rollout in second
    ]
    return pair_accuracy(pairs)


def distinct_share(run: Run) -> float | None:
    """Return the share of different replies in the newest batch."""
    plan = run.settings
    texts = Rollout.objects.filter(
        run=run, state=Rollout.State.FINISHED, origin=Rollout.Origin.POLICY
    ).order_by("-pk")
    newest = list(texts.values_list("text", flat=True)[: plan.group_size * plan.groups_per_step])
    return len(set(newest)) / len(newest) if newest else None


def mean_surprise(run: Run) -> float | None:
    """Return the base NLL of the newest batch's replies, in nats per token."""
    plan = run.settings
    newest = (
        RolloutBaseNll.objects.filter(rollout__run=run)
        .order_by("-rollout")
        .values_list("mean", flat=True)
    )
    means = list(newest[: plan.group_size * plan.groups_per_step])
    return sum(means) / len(means) if means else None


def mean_recent_value(learner: Learner) -> float | None:
    """Return people's mean value of the newest replies."""
    newest = [valued.value for valued in learner.values[-RECENT:]]
    return sum(newest) / len(newest) if len(newest) == RECENT else None
