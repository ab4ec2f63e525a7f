"""Withdrawal of a decision by a new row; the person holds its item again."""

import uuid
from collections.abc import Iterable

from django.db.models import QuerySet
from django.db.models.functions import Now

from apps.accounts.locking import lock_first, unit_of_work
from apps.accounts.models import User
from apps.feedback.claiming import HeldItem, held_by
from apps.feedback.known_answers import is_told
from apps.feedback.models import Rating, RatingReward, Slot
from apps.feedback.submitting import Refused
from apps.rewards.models import Reward
from apps.rollouts.models import Group
from apps.runs.models import after

HISTORY = 10  # how many decisions can be withdrawn
SHORTEST_LEASE_S = 60.0
LEASE_DECISIONS = 3


@unit_of_work
def withdraw_decision(
    user: User, rating_uuid: uuid.UUID, new_uuid: uuid.UUID
) -> tuple[HeldItem, Rating]:
    """Withdraw one of the person's last decisions; the person holds its item again.

    Returns the item and the withdrawn decision. Raises Refused.
    """
    recent = list(_recent(user))
    taken_back = next((rating for rating in recent if rating.client_uuid == rating_uuid), None)
    if taken_back is None:
        raise Refused("too_old", f"You can undo only your last {HISTORY} ratings.")
    mine = Slot.objects.filter(item=taken_back.item_id, rater=user)
    slot = lock_first(mine.select_related("group", "item", "run"), "group")
    if slot is None or slot.state not in (Slot.State.DONE, Slot.State.HELD):
        raise Refused("closed", "This item no longer exists. Its rating is kept.")
    if is_told(slot.item, slot.run.settings.people):
        raise Refused("told", "You saw the correct rating, so you can’t undo yours.")
    if taken_back.is_current:
        _withdraw(
            user,
            taken_back,
            new_uuid,
            is_late=slot.is_required and slot.group.state not in Group.HEARING,
        )
    lease = after(max(SHORTEST_LEASE_S, LEASE_DECISIONS * (taken_back.seconds or 0)))
    # Stars on the live wall decided it before the item was shown to anybody.
    shown = slot.shown or slot.item.members
    Slot.objects.filter(pk=slot.pk).update(
        state=Slot.State.HELD,
        held_at=Now(),
        lease_until=lease,
        fence=slot.fence + 1,
        shown=shown,
        lease_s=None,
    )
    return held_by(user, slot.pk), taken_back


def _recent(user: User) -> QuerySet[Rating]:
    """Return the person's last ratings of items, replaced ones included."""
    made = Rating.objects.filter(rater=user, is_withdrawn=False, item__isnull=False)
    return made.order_by("-pk")[:HISTORY]


def changeable(user: User) -> set[int]:
    """Return the ids of the person's ratings in force that `undo` would withdraw now."""
    recent = [
        rating
        for rating in _recent(user).select_related("item", "run")
        if rating.is_current
        and rating.item is not None
        and not is_told(rating.item, rating.run.settings.people)
    ]
    in_hand = Slot.objects.filter(
        item__in={rating.item_id for rating in recent},
        rater=user,
        state__in=[Slot.State.DONE, Slot.State.HELD],
    )
    items = set(in_hand.values_list("item", flat=True))
    return {rating.pk for rating in recent if rating.item_id in items}


def withdrawn_ratings(user: User, items: Iterable[int]) -> dict[int, Rating]:
    """Return the person's last rating of each of these items if it is withdrawn. One statement."""
    last = Rating.objects.filter(rater=user, item__in=items).order_by("item", "-pk")
    return {
        rating.item_id: rating
        for rating in last.distinct("item")
        if rating.item_id is not None and rating.is_withdrawn
    }


def _withdraw(user: User, rating: Rating, new_uuid: uuid.UUID, is_late: bool) -> None:
    made = RatingReward.objects.filter(rating=rating).values("reward")
    Reward.objects.filter(pk__in=made).update(is_current=False)
    Rating.objects.filter(pk=rating.pk).update(is_current=False)
    Rating.objects.create(
        item_id=rating.item_id,
        rollout_id=rating.rollout_id,
        run_id=rating.run_id,
        rater=user,
        form=rating.form,
        answer=rating.answer,
        critique=rating.critique,
        shown=rating.shown,
        client_uuid=new_uuid,
        replaces=rating,
        is_current=False,
        is_withdrawn=True,
        is_late=is_late,
    )
