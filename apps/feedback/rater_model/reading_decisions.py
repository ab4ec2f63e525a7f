"""Read ratings from their rows as training data of the rater model."""

from collections.abc import Iterable

from apps.feedback.models import Rating
from apps.feedback.rater_model.answers import Decision, read_learnable_decision
from apps.feedback.rater_model.replies import extract_features_by_rollout, learn_topics, replies
from apps.runs.models import Run


def decided(run: Run, ratings: Iterable[int]) -> dict[int, tuple[Decision | None, str | None]]:
    """Return, by rating id, in order: the decision, and its item's purpose.

    Ratings of replies without a base NLL are left for later.
    """
    names = ("pk", "form", "answer", "shown", "rollout", "rater", "item__purpose")
    rows = list(Rating.objects.filter(pk__in=list(ratings)).order_by("pk").values_list(*names))
    members_by_rating = {pk: list(shown) or [rollout] for pk, _, _, shown, rollout, _, _ in rows}
    features = extract_features_by_rollout(
        replies(rollout for members in members_by_rating.values() for rollout in members),
        learn_topics(run.taskset_ids),
    )
    people = run.settings.people
    read: dict[int, tuple[Decision | None, str | None]] = {}
    for pk, form, answer, _, _, rater, purpose in rows:
        if all(rollout in features for rollout in members_by_rating[pk]):
            read[pk] = (
                read_learnable_decision(
                    form, answer, members_by_rating[pk], rater, features, people
                ),
                purpose,
            )
    return read
