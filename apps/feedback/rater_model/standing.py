"""How a run's rater model stands: its audits, how far people agree among themselves, and what is alarming."""

from dataclasses import asdict

from django.db.models import F

from apps.feedback.forms import FORMS
from apps.feedback.models import Item, Prediction, Rating
from apps.feedback.rater_model.audits import RECENT, WINDOW, Accuracy, Audit, alarms, gap, light, pair_accuracy, share_right
from apps.feedback.rater_model.learner import Learner
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from apps.runs.people import COMPARES


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
    """Person with person: share of pairs of repeated items that the second decision orders as the first did."""
    people = run.settings.people
    if people.form in COMPARES:
        return _agreeing_comparisons(run)
    pairs = []
    for first, second, rollout, form in _repeated(run):
        said = [FORMS[form].values(answer, [rollout], people).get(rollout) for answer in (first, second)]
        if None not in said:
            pairs.append(Audit(*said))
    return pair_accuracy(pairs)


def _repeated(run: Run) -> list[tuple[dict, dict, int, str]]:
    """(the first decision's answer, the second's, rollout, form) of the repeated items, oldest first."""
    rows = Rating.objects.counting().filter(
        run=run, item__purpose=Item.Purpose.REPEAT, item__repeats__ratings__is_current=True, form=F("item__repeats__ratings__form")
    )
    names = ("item__repeats__ratings__answer", "answer", "rollout", "form")
    return list(reversed(rows.order_by("-pk")[:WINDOW].values_list(*names)))


def _agreeing_comparisons(run: Run) -> Accuracy:
    people = run.settings.people
    rows = Rating.objects.counting().filter(run=run, item__purpose=Item.Purpose.REPEAT, item__repeats__ratings__is_current=True)
    names = ("item__repeats__ratings__answer", "item__repeats__ratings__shown", "answer", "shown", "form")
    shares = []
    for first, shown_first, second, shown, form in rows.order_by("-pk")[:WINDOW].values_list(*names):
        a, b = (FORMS[form].values(answer, order, people) for answer, order in ((first, shown_first), (second, shown)))
        share = pair_accuracy([Audit(b[rollout], a[rollout]) for rollout in a if rollout in b]).share
        shares += [] if share is None else [share]
    return share_right(shares[::-1])


def distinct_share(run: Run) -> float | None:
    """Share of different replies among the newest batch's."""
    plan = run.settings
    texts = Rollout.objects.filter(run=run, state=Rollout.State.FINISHED, origin=Rollout.Origin.POLICY).order_by("-pk")
    newest = list(texts.values_list("text", flat=True)[: plan.group_size * plan.groups_per_step])
    return len(set(newest)) / len(newest) if newest else None


def recent_word(learner: Learner) -> float | None:
    """People's mean number for the newest replies."""
    newest = [valued.value for valued in learner.values[-RECENT:]]
    return sum(newest) / len(newest) if len(newest) == RECENT else None
