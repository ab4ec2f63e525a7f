"""The history of a run's rater model as points to draw, and samples of replies by version."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import F, Max
from django.db.models.functions import Mod

from apps.feedback.forms import FORMS
from apps.feedback.models import Prediction, RaterModel, Rating
from apps.feedback.rater_model.audits import RECENT
from apps.feedback.rater_model.learner import RIDGE
from apps.rewards.combining import RATER_MODEL
from apps.rewards.models import Reward
from apps.rollouts.models import Rollout
from apps.runs.models import Run

POINTS = 400
VERSIONS = 4
SAMPLES = 3  # newest versions shown, and replies of each
LOOKED_AT = 600  # newest replies that are searched
MAX_COUNTED = 20_000  # decisions, and replies given a reward
WORDS = 8  # the words with the largest weights, for and against
Series = dict[str, list]


@dataclass(frozen=True)
class RatingCounts:
    """The number of people's decisions and of predicted rewards; both are counted up to `limit`."""

    decisions: int
    planned: int | None
    filled: int
    limit: int = MAX_COUNTED

    @property
    def share(self) -> float | None:
        """Return decisions per prediction; None without any, or with more than are counted."""
        return self.decisions / self.filled if 0 < self.filled < self.limit else None


def spent(run: Run) -> RatingCounts:
    schedule = run.settings.people.schedule
    filled = Reward.objects.filter(rollout__run=run, scorer=RATER_MODEL, by=None).exclude(
        value=None
    )
    decisions = Rating.objects.counting().filter(run=run)
    planned = schedule.decisions if schedule else None
    return RatingCounts(
        decisions.order_by("-pk")[:MAX_COUNTED].count(), planned, filled[:MAX_COUNTED].count()
    )


def predicted_and_rated(run: Run) -> dict[str, Series]:
    """Return running means of RECENT audits by number of decisions: predicted and human values.

    Predictions come with a band.
    """
    audits = _audits(run)
    curves: dict[str, Series] = {
        name: {"x": [], "y": []} for name in ("predicted", "rated", "low", "high")
    }
    for end in range(RECENT, len(audits) + 1):
        learned, means, deviations, values = zip(*audits[end - RECENT : end], strict=True)
        mean = _mean(means)
        deviation = _mean(deviations)
        for name, value in (
            ("predicted", mean),
            ("rated", _mean(values)),
            ("low", mean - deviation),
            ("high", mean + deviation),
        ):
            curves[name]["x"].append(learned[-1])
            curves[name]["y"].append(round(value, 4))
    return curves


def _audits(run: Run) -> list[tuple[int, float, float, float]]:
    """Return the newest audits of values, oldest first.

    Each has the number of decisions that the model had learned, its mean and deviation, and the
    person's value.
    """
    predictions = Prediction.objects.filter(
        rating__run=run, is_audit=True, rating__is_current=True, rating__is_withdrawn=False
    )
    columns = (
        "mean",
        "deviation",
        "rater_model__decisions",
        "rating__form",
        "rating__answer",
        "rating__rollout",
    )
    newest = predictions.order_by("-rating")[:POINTS].values_list(*columns)
    people = run.settings.people
    audits = []
    for mean, deviation, learned, form, answer, rollout in reversed(newest):
        value = FORMS[form].values(answer, [rollout], people).get(rollout) if rollout else None
        if value is not None:
            audits.append((learned, mean, deviation, value))
    return audits


def metrics_over_time(run: Run) -> dict[str, Series]:
    """Return the metrics of the fits by the number of decisions learned.

    They are pair accuracy, agreement of people, distinct replies and base NLL.
    """
    models = RaterModel.objects.filter(run=run, kind=RIDGE)
    newest = models.aggregate(newest=Max("number"))["newest"] or 0
    wide = max(1, -(-newest // POINTS))
    rows = (
        models.annotate(place=Mod(F("number"), wide))
        .filter(place=newest % wide)
        .exclude(metrics={})
        .order_by("number")
    )
    curves: dict[str, Series] = {
        name: {"x": [], "y": []} for name in ("accuracy", "agreement", "distinct", "surprise")
    }
    for decisions, metrics in rows.values_list("decisions", "metrics"):
        points = {
            "accuracy": metrics["accuracy"]["share"],
            "agreement": metrics["agreement"]["share"],
            "distinct": metrics["distinct"],
            "surprise": metrics.get("surprise"),
        }
        for name, value in points.items():
            if value is not None:
                curves[name]["x"].append(decisions)
                curves[name]["y"].append(round(value, 4))
    return curves


@dataclass(frozen=True)
class Sample:
    """A reply, with the model's value and people's ratings."""

    rollout: Rollout
    predicted: float | None
    ratings: tuple[float, ...]


def samples(run: Run) -> list[tuple[int, list[Sample]]]:
    """Return a few replies of each of the newest versions, newest first; two statements."""
    newest = sorted(_rollouts_by_version(run).items(), reverse=True)[:VERSIONS]
    rollout_ids = [rollout.pk for _, rollouts in newest for rollout in rollouts]
    rewards = list(
        Reward.objects.filter(rollout__in=rollout_ids, is_current=True)
        .exclude(value=None)
        .values_list("rollout", "scorer", "source", "value")
    )
    predicted = {rollout: value for rollout, scorer, _, value in rewards if scorer == RATER_MODEL}
    human_values = {
        pk: tuple(
            value
            for rollout, _, source, value in rewards
            if rollout == pk and source == Reward.Source.HUMAN and value is not None
        )
        for pk in rollout_ids
    }
    return [
        (version, [Sample(r, predicted.get(r.pk), human_values[r.pk]) for r in rollouts])
        for version, rollouts in newest
    ]


def _rollouts_by_version(run: Run) -> dict[int, list[Rollout]]:
    """Return a few of the newest rollouts of each version, no two of one group."""
    finished = Rollout.objects.filter(
        run=run, state=Rollout.State.FINISHED, origin=Rollout.Origin.POLICY
    )
    by_version: dict[int, list[Rollout]] = {}
    for rollout in finished.exclude(first_version=None).order_by("-pk")[:LOOKED_AT]:
        assert rollout.first_version is not None  # as filtered
        of_version = by_version.setdefault(rollout.first_version, [])
        groups = {chosen.group_id for chosen in of_version}
        if len(of_version) < SAMPLES and rollout.group_id not in groups:
            of_version.append(rollout)
    return by_version


def telling_words(coefficients: dict) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
    """Return the words with the largest weights for a reply and against it."""
    by_weight = sorted(coefficients.get("words", {}).items(), key=lambda item: item[1])
    against = [(word, weight) for word, weight in by_weight[:WORDS] if weight < 0]
    largest = reversed(by_weight[-WORDS:])
    return [(word, weight) for word, weight in largest if weight > 0], against


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
