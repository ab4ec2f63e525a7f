"""Save corrected replies: beside a decision by its holder, or on a reply's page by staff."""

import uuid

from django.db import transaction

from apps.accounts.locking import lock_first, lock_one, unit_of_work
from apps.accounts.models import AuditEntry, User
from apps.feedback import rewrite_lessons
from apps.feedback.claiming import who_has
from apps.feedback.forms import FORMS, BadAnswer
from apps.feedback.models import Rating, Slot
from apps.feedback.ratings.answers import Refused, UsedUuid
from apps.feedback.ratings.intake import Decision, comes_late, enter_ratings
from apps.feedback.ratings.items import SubmissionResult
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run


@unit_of_work
def demonstrate(
    user: User, slot_id: int, fence: int, rollout_id: int, client_uuid: uuid.UUID, text: object
) -> SubmissionResult:
    """Save a rewrite of a claimed reply beside the decision; the slot stays held.

    Raises Refused and BadAnswer.
    """
    if existing := Rating.objects.filter(rater=user, client_uuid=client_uuid).first():
        return _existing_result(existing, rollout_id)
    visible_slots = Slot.objects.filter(pk=slot_id, run__in=Run.objects.visible_to(user))
    slot = lock_first(visible_slots.select_related("item", "group", "run"), "group")
    if slot is None or slot.rater_id != user.pk or slot.fence != fence:
        raise Refused("lease_lost", who_has(slot_id))
    if rollout_id not in slot.item.members:
        raise BadAnswer({"rollout": "is not one of the replies shown"})
    return _store_rewrite(user, slot.run, slot.group, rollout_id, client_uuid, text)


@unit_of_work
def save_correction(
    user: User, rollout: Rollout, client_uuid: uuid.UUID, text: object
) -> SubmissionResult:
    """Save a corrected reply from a person who runs its project, whether or not it is in an item.

    Raises Refused and BadAnswer.
    """
    if existing := Rating.objects.filter(rater=user, client_uuid=client_uuid).first():
        return _existing_result(existing, rollout.pk)
    if rollout.state != Rollout.State.FINISHED or rollout.turns:
        raise Refused("not_possible", "Only finished replies with one turn can be corrected.")
    group = lock_one(Group.objects.filter(pk=rollout.group_id).select_related("task"))
    outcome = _store_rewrite(user, rollout.run, group, rollout.pk, client_uuid, text)
    project = rollout.run.project
    slug = rollout.run.slug
    AuditEntry.record(
        "answer corrected",
        f"rollout {rollout.pk} of {project.slug}/{slug}",
        user,
        project,
        rating=outcome.rating_id,
    )
    return outcome


def _store_rewrite(
    user: User, run: Run, group: Group, rollout_id: int, client_uuid: uuid.UUID, text: object
) -> SubmissionResult:
    people = run.settings.people
    shown = [rollout_id]
    decision = Decision(
        form="rewrite",
        answer=FORMS["rewrite"].parse({"text": text}, shown, people),
        shown=shown,
        client_uuid=client_uuid,
    )
    is_late = comes_late(group)
    try:
        with transaction.atomic():
            [rating_id] = enter_ratings(
                user, group, people, [decision], is_late=is_late, is_first=True
            )
    except UsedUuid:  # perhaps by the same text, sent twice at once
        return _existing_result(Rating.objects.get(rater=user, client_uuid=client_uuid), rollout_id)
    rewrite_lessons.keep_rewrite(user, run, group, rollout_id, decision.answer["text"])
    return SubmissionResult(rating_id, is_late, True)


def _existing_result(existing: Rating, rollout_id: int) -> SubmissionResult:
    if existing.form != "rewrite" or existing.rollout_id != rollout_id:
        raise UsedUuid
    return SubmissionResult(existing.pk, existing.is_late, False)
