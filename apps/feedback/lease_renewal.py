"""Renew the lease of a held item; an expired lease may be taken up again."""

from django.db import connection, transaction

from apps.accounts.models import User
from apps.feedback.claiming import NotHeld, who_has
from apps.feedback.models import Slot

FULL_HANDS = "Your time ran out, and you hold the maximum number of items of this run."

# Extended by its full length from now.
LENGTHENED = """
    UPDATE feedback_slot s SET state = 'held', held_at = statement_timestamp(),
        lease_until = statement_timestamp() + greatest(
            coalesce(s.lease_s * interval '1 second', s.lease_until - s.held_at),
            interval '1 second')
    FROM runs_run r WHERE r.id = s.run_id AND s.id = %(slot)s AND s.rater_id = %(user)s
        AND s.fence = %(fence)s AND ({slot_condition})
    RETURNING extract(epoch FROM s.lease_until - statement_timestamp())::float"""
IN_HAND = "s.state = 'held' AND s.lease_until > statement_timestamp()"
WITH_A_HAND_FREE = f"""{IN_HAND} OR s.state IN ('held', 'open') AND s.lease_until IS NOT NULL
    AND %(full)s < coalesce((r.config #>> '{{people,open_claims}}')::int, 3)"""


def extend_item_lease(user: User, slot_id: int, fence: int) -> float:
    """Extend the lease to its full length from now; return the seconds.

    An expired lease is taken up again, unless somebody else has taken the slot or the person holds
    as many as allowed. Raises NotHeld if somebody else has it.
    """
    values = {"slot": slot_id, "user": user.pk, "fence": fence}
    seconds = _lengthen_lease(IN_HAND, values) or _take_up_expired_lease(values)
    if seconds is None:
        free = Slot.objects.filter(
            pk=slot_id, rater=user, fence=fence, state__in=[Slot.State.HELD, Slot.State.OPEN]
        ).exists()
        raise NotHeld(FULL_HANDS if free else who_has(slot_id))
    return seconds


@transaction.atomic
def _take_up_expired_lease(values: dict) -> float | None:
    """Take up an expired lease in its own statement, serialised with the person's claims.

    The count of held items then includes what those claims took.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT feedback_in_hand(%(user)s)", values)
        [full] = cursor.fetchone()
    return _lengthen_lease(WITH_A_HAND_FREE, {**values, "full": full})


def _lengthen_lease(slot_condition: str, values: dict) -> float | None:
    with connection.cursor() as cursor:
        cursor.execute(LENGTHENED.format(slot_condition=slot_condition), values)
        row = cursor.fetchone()
    return row[0] if row else None
