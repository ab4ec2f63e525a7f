"""Taking a decision back: a new row withdraws it, and its item is in the person's hands again."""

import uuid

from django.db.models.functions import Now

from apps.accounts.locking import lock_first, unit_of_work
from apps.accounts.models import User
from apps.feedback.claiming import Held, held_by
from apps.feedback.known_answers import is_told
from apps.feedback.models import Rating, RatingReward, Slot
from apps.feedback.submitting import Refused
from apps.rewards.models import Reward
from apps.rollouts.models import Group
from apps.runs.models import after

HISTORY = 10  # how many decisions back
SHORTEST_LEASE_S, LEASE_DECISIONS = 60.0, 3


@unit_of_work
def undo(user: User, rating_uuid: uuid.UUID, new_uuid: uuid.UUID) -> tuple[Held, Rating]:
    """Take back one of the person's last decisions: a new row withdraws it, and its item is in the person's hands again.

    Returns the item and the decision taken back. Raises Refused.
    """
    recent = list(Rating.objects.filter(rater=user, is_withdrawn=False, item__isnull=False).order_by("-pk")[:HISTORY])
    taken_back = next((rating for rating in recent if rating.client_uuid == rating_uuid), None)
    if taken_back is None:
        raise Refused("too_old", f"Only your last {HISTORY} decisions can be taken back.")
    mine = Slot.objects.filter(item=taken_back.item_id, rater=user)
    slot = lock_first(mine.select_related("group", "item", "run"), "group")
    if slot is None or slot.state not in (Slot.State.DONE, Slot.State.HELD):
        raise Refused("closed", "This item is gone; its rating stands.")
    if is_told(slot.item, slot.run.settings.people):
        raise Refused("told", "You were told the right answer: your decision stands.")
    if taken_back.is_current:
        _withdraw(user, taken_back, new_uuid, is_late=slot.is_required and slot.group.state not in Group.HEARING)
    lease = after(max(SHORTEST_LEASE_S, LEASE_DECISIONS * (taken_back.seconds or 0)))
    shown = slot.shown or slot.item.members  # stars of the live wall decided it before anybody was shown it
    Slot.objects.filter(pk=slot.pk).update(
        state=Slot.State.HELD, held_at=Now(), lease_until=lease, fence=slot.fence + 1, shown=shown
    )
    return held_by(user, slot.pk), taken_back


def _withdraw(user: User, rating: Rating, new_uuid: uuid.UUID, is_late: bool) -> None:
    made = RatingReward.objects.filter(rating=rating).values("reward")
    Reward.objects.filter(pk__in=made).update(is_current=False)
    Rating.objects.filter(pk=rating.pk).update(is_current=False)
    Rating.objects.create(
        item_id=rating.item_id, rollout_id=rating.rollout_id, run_id=rating.run_id, rater=user, form=rating.form,
        answer=rating.answer, critique=rating.critique, shown=rating.shown, client_uuid=new_uuid, replaces=rating, is_current=False,
        is_withdrawn=True, is_late=is_late,
    )  # fmt: skip
