"""Withdraw a decision by a new row; the person holds its item again."""

import uuid
from collections.abc import Iterable

from django.db.models import QuerySet
from django.db.models.functions import Now

from apps.accounts.locking import lock_first, unit_of_work
from apps.accounts.models import User
from apps.feedback.claiming import HeldItem, held_by
from apps.feedback.known_answers import is_told
from apps.feedback.models import Rating, Slot
from apps.feedback.ratings.answers import Refused, UsedUuid
from apps.feedback.ratings.intake import Decision, comes_late, enter_ratings
from apps.runs.models import after

HISTORY = 10  # how many decisions can be withdrawn
MIN_LEASE_S = 60.0
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
    own_slots = Slot.objects.filter(item=taken_back.item_id, rater=user)
    slot = lock_first(own_slots.select_related("group", "item", "run"), "group")
    if slot is None or slot.state not in (Slot.State.DONE, Slot.State.HELD):
        raise Refused("closed", "This item no longer exists. Its rating is kept.")
    if is_told(slot.item, slot.run.settings.people):
        raise Refused("told", "You saw the correct rating, so you can’t undo yours.")
    if taken_back.is_current:
        _withdraw(user, slot, taken_back, new_uuid)
    lease = after(max(MIN_LEASE_S, LEASE_DECISIONS * (taken_back.seconds or 0)))
    # Stars on the live wall decided the item before it was shown to anybody.
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
    ratings = Rating.objects.filter(rater=user, is_withdrawn=False, item__isnull=False)
    return ratings.order_by("-pk")[:HISTORY]


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


def _withdraw(user: User, slot: Slot, rating: Rating, new_uuid: uuid.UUID) -> None:
    """Write the withdrawal, which repeats the rating and makes no reward."""
    withdrawal = Decision(
        form=rating.form,
        answer=rating.answer,
        shown=rating.members,
        client_uuid=new_uuid,
        item_id=rating.item_id,
        critique=rating.critique,
        replaces=rating.pk,
        is_current=False,
        is_withdrawn=True,
        makes_rewards=False,
    )
    try:
        enter_ratings(
            user,
            slot.group,
            slot.run.settings.people,
            [withdrawal],
            is_late=comes_late(slot.group, slot.is_required),
            replaced=[rating.pk],
        )
    except UsedUuid:
        raise UsedUuid("new_uuid") from None
