"""Warn when a rater model is no longer checked: after the last question it may drift."""

from django.db.models import Max

from apps.feedback.models import Prediction
from apps.feedback.rater_model.asking import asked_so_far
from apps.rollouts.models import Rollout
from apps.runs.models import Run

UPDATES = 10  # steps after which the newest audit is outdated


def warn_of_unchecked(run: Run) -> str | None:
    """Return a warning if no more questions follow and the newest audit is too old.

    Age is counted in steps. No run is paused. The number of statements is fixed.
    """
    people = run.settings.people
    if (
        people.rater_model is None
        or people.schedule is None
        or asked_so_far(run).total() < people.schedule.decisions
    ):
        return None
    since = _last_audited(run)
    if run.published_version - since < UPDATES:
        return None
    return f"No ratings since step {since}: the model’s predictions are no longer checked."


def _last_audited(run: Run) -> int:
    """Return the version that sampled the reply of the newest audit; 0 without any."""
    audits = Prediction.objects.filter(
        rating__run=run, is_audit=True, rating__is_current=True, rating__is_withdrawn=False
    )
    newest = audits.order_by("-rating").values_list("rating__shown", "rating__rollout").first()
    if newest is None:
        return 0
    shown, rollout = newest
    written = Rollout.objects.filter(
        pk__in=shown or [rollout], origin=Rollout.Origin.POLICY
    ).exclude(first_version=None)
    return written.aggregate(newest=Max("first_version"))["newest"] or 0
