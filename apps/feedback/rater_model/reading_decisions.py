"""Ratings as the rater model learns them, from their rows."""

from collections.abc import Iterable

from apps.feedback.models import Rating
from apps.feedback.rater_model.answers import Decision, learnable
from apps.feedback.rater_model.replies import replies, seen, topics_of
from apps.runs.models import Run


def decided(run: Run, ratings: Iterable[int]) -> dict[int, tuple[Decision | None, str | None]]:
    """By rating, in their order: what it says and its item's purpose. Ratings of replies not yet read are left for later."""
    names = ("pk", "form", "answer", "shown", "rollout", "rater", "item__purpose")
    rows = list(Rating.objects.filter(pk__in=list(ratings)).order_by("pk").values_list(*names))
    shown = {pk: list(seen_in) or [rollout] for pk, _, _, seen_in, rollout, _, _ in rows}
    found = seen(replies(rollout for members in shown.values() for rollout in members), topics_of(run.taskset_ids))
    people = run.settings.people
    read: dict[int, tuple[Decision | None, str | None]] = {}
    for pk, form, answer, _, _, rater, purpose in rows:
        if all(rollout in found for rollout in shown[pk]):
            read[pk] = learnable(form, answer, shown[pk], rater, found, people), purpose
    return read
