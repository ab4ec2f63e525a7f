"""Whether anybody still looks at what a rater model says: after the last question it drifts, and no figure of it moves."""

from apps.feedback.models import Prediction
from apps.feedback.rater_model.asking import asked_so_far
from apps.rollouts.models import Rollout
from apps.runs.models import Run

UPDATES = 10  # after which the newest audit says nothing of what is written now


def unchecked(run: Run) -> str | None:
    """In words, that no more questions are to come and the newest audit is so many updates old; None while it is not so.

    Pauses nothing. A fixed number of statements.
    """
    people = run.settings.people
    if people.rater_model is None or people.schedule is None or asked_so_far(run).total() < people.schedule.decisions:
        return None
    since = _last_audited(run)
    if run.published_version - since < UPDATES:
        return None
    return f"Nobody has been asked since update {since}: what the model says is not checked any more."


def _last_audited(run: Run) -> int:
    """The weights that wrote the reply of the newest audit; 0, those that the run began with, where there was none."""
    audits = Prediction.objects.filter(rating__run=run, is_audit=True, rating__is_current=True, rating__is_withdrawn=False)
    newest = audits.order_by("-rating").values_list("rating__shown", "rating__rollout").first()
    if newest is None:
        return 0
    shown, rollout = newest
    written = Rollout.objects.filter(pk__in=shown or [rollout], origin=Rollout.Origin.POLICY).exclude(first_version=None)
    return max(written.values_list("first_version", flat=True), default=0)
