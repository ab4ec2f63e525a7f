"""How a run's rater model stands: its audits, how far people agree among themselves, and what is alarming."""

from dataclasses import asdict

from apps.feedback.forms import FORMS
from apps.feedback.models import Prediction, Rating, Surprise
from apps.feedback.rater_model.audits import RECENT, WINDOW, Accuracy, Audit, alarms, gap, light, pair_accuracy, share_right
from apps.feedback.rater_model.learner import Learner
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from apps.runs.people import COMPARES

REPEATS_LOOKED_AT = 2_000  # newest decisions among which those about the same replies are sought


def standing(run: Run, learner: Learner) -> dict[str, object]:
    """The figures kept beside a fit: plain numbers, None where there are too few decisions."""
    people = run.settings.people
    audits, comparisons = audits_of(run)
    accuracy = share_right(comparisons) if people.form in COMPARES else pair_accuracy(audits)
    distinct, said = distinct_share(run), recent_word(learner)
    return {
        "accuracy": asdict(accuracy),
        "light": light(accuracy),
        "gap": gap(audits),
        "distinct": distinct,
        "surprise": mean_surprise(run),
        "said": said,
        "agreement": asdict(agreement(run)),
        "alarms": alarms(audits, distinct, said),
    }


def audits_of(run: Run) -> tuple[list[Audit], list[float]]:
    """The newest audits in the order they came: of numbers, and for comparisons the share of pairs foretold rightly."""
    people = run.settings.people
    rows = Prediction.objects.filter(rating__run=run, is_audit=True, rating__is_current=True, rating__is_withdrawn=False)
    names = ("mean", "rating__form", "rating__answer", "rating__rollout")
    audits, shares = [], []
    for mean, form, answer, rollout in reversed(rows.order_by("-rating")[:WINDOW].values_list(*names)):
        if form in COMPARES:
            shares.append(mean)
        elif (value := FORMS[form].values(answer, [rollout], people).get(rollout)) is not None:
            audits.append(Audit(mean, value))
    return audits, shares


def agreement(run: Run) -> Accuracy:
    """Person with person: share of pairs that a second decision about the same replies orders as the first did."""
    people = run.settings.people
    said: dict[tuple[int, ...], list[dict[int, float | None]]] = {}
    rows = Rating.objects.counting().filter(run=run, form=people.form).order_by("-pk")
    for answer, shown, rollout in rows.values_list("answer", "shown", "rollout")[:REPEATS_LOOKED_AT]:
        shown = list(shown) or [rollout]
        said.setdefault(tuple(sorted(shown)), []).append(FORMS[people.form].values(answer, shown, people))
    twice = [values[-2:] for values in reversed(said.values()) if len(values) > 1]
    if people.form in COMPARES:
        shares = [pair_accuracy([Audit(b[r], a[r]) for r in a if r in b]).share for b, a in twice]
        return share_right([share for share in shares if share is not None])
    pairs = [(b[rollout], a[rollout]) for b, a in twice for rollout in a if rollout in b]
    return pair_accuracy([Audit(second, first) for second, first in pairs if None not in (first, second)])


def distinct_share(run: Run) -> float | None:
    """Share of different replies among the newest batch's."""
    plan = run.settings
    texts = Rollout.objects.filter(run=run, state=Rollout.State.FINISHED, origin=Rollout.Origin.POLICY).order_by("-pk")
    newest = list(texts.values_list("text", flat=True)[: plan.group_size * plan.groups_per_step])
    return len(set(newest)) / len(newest) if newest else None


def mean_surprise(run: Run) -> float | None:
    """Nats per token of the newest batch's replies under the base weights."""
    plan = run.settings
    newest = Surprise.objects.filter(rollout__run=run).order_by("-rollout").values_list("mean", flat=True)
    found = list(newest[: plan.group_size * plan.groups_per_step])
    return sum(found) / len(found) if found else None


def recent_word(learner: Learner) -> float | None:
    """People's mean number for the newest replies."""
    newest = [valued.value for valued in learner.values[-RECENT:]]
    return sum(newest) / len(newest) if len(newest) == RECENT else None
