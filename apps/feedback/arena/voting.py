"""Taking a vote about a pair, and taking it back. Both append a row; the pairing's row is locked, so that its count is right.

Sent again with the same client uuid it is the same vote.
"""

import uuid
from dataclasses import dataclass

from django.db import IntegrityError, transaction
from django.db.models import F

from apps.accounts.locking import lock_one
from apps.accounts.models import User
from apps.feedback.arena.pairs import Pair, first_is_left, named
from apps.feedback.forms import BadAnswer
from apps.feedback.models import Arena, Pairing, Vote
from apps.feedback.submitting import Refused

LEFT, RIGHT = "left", "right"
SAID = (LEFT, RIGHT, Vote.Choice.TIE.value, Vote.Choice.BAD.value)
LONGEST_MS = 86_400_000


@dataclass(frozen=True)
class Cast:
    vote: int
    is_new: bool


def pairings_of(arena: Arena) -> list[Pairing]:
    """66 at most."""
    return list(arena.pairings.select_related("first", "second").order_by("pk"))


def cast(user: User, arena: Arena, name: object, said: object, client_uuid: uuid.UUID, milliseconds: int | None = None) -> Cast:
    """Take a vote; `said`: which side is better, by where it stood. Raises Refused and BadAnswer."""
    if said not in SAID:
        raise BadAnswer({"said": f"must be one of {', '.join(SAID)}"})
    pair = named(arena, pairings_of(arena), user, name)
    if pair is None:
        raise BadAnswer({"pair": "is no pair that you were shown in this arena"})
    return _append(user, arena, pair, _choice(arena, user, pair, said), client_uuid, milliseconds)


def take_back(user: User, arena: Arena, client_uuid: uuid.UUID, new_uuid: uuid.UUID) -> Pair:
    """Take back one's vote; the pair is to be judged again. Raises Refused."""
    vote = Vote.objects.filter(rater=user, client_uuid=client_uuid, pairing__arena=arena).select_related("task").first()
    if vote is None or vote.choice == Vote.Choice.BACK:
        raise Refused("gone", "There is no such vote of yours in this arena.")
    pairing = Pairing.objects.select_related("first", "second").get(pk=vote.pairing_id)
    pair = Pair(pairing, vote.task_id, vote.task.index, vote.sample_index)
    _append(user, arena, pair, Vote.Choice.BACK.value, new_uuid, None, only_after=vote)
    return pair


def _choice(arena: Arena, user: User, pair: Pair, said: str) -> str:
    if said not in (LEFT, RIGHT):
        return said
    is_first = (said == LEFT) == first_is_left(arena, user, pair)
    return (Vote.Choice.FIRST if is_first else Vote.Choice.SECOND).value


@transaction.atomic
def _append(
    user: User, arena: Arena, pair: Pair, choice: str, client_uuid: uuid.UUID, milliseconds: int | None,
    only_after: Vote | None = None,
) -> Cast:  # fmt: skip
    """`only_after`: what is taken back must be the newest word still. Raises Refused."""
    lock_one(Pairing.objects.filter(pk=pair.pairing.pk))
    where = {"pairing": pair.pairing, "task_id": pair.task_id, "sample_index": pair.sample}
    known = Vote.objects.filter(rater=user, client_uuid=client_uuid).first()
    if known:
        if any(getattr(known, field) != value for field, value in where.items()) or known.choice != choice:
            raise Refused("used_uuid", "This client_uuid was used for another vote; a new one needs a new one.")
        return Cast(known.pk, False)
    if Arena.objects.filter(pk=arena.pk, closed_at__isnull=False).exists():
        raise Refused("closed", "This arena was closed: nobody votes in it any more. The votes until then count.")
    before = Vote.objects.filter(rater=user, **where).order_by("-pk").first()
    if only_after and (before is None or before.pk != only_after.pk):
        raise Refused("changed", "You said something newer of this pair, perhaps in another window. That stands.")
    vote = Vote(
        rater=user, choice=choice, first_on_left=first_is_left(arena, user, pair), client_uuid=client_uuid,
        milliseconds=milliseconds, **where,
    )  # fmt: skip
    try:
        with transaction.atomic():
            vote.save()
    except IntegrityError:  # at this moment about a pair of another pairing
        raise Refused("used_uuid", "This client_uuid was used for another vote; a new one needs a new one.") from None
    change = _stands(choice) - _stands(before.choice if before else Vote.Choice.BACK)
    Pairing.objects.filter(pk=pair.pairing.pk).update(votes=F("votes") + change)
    return Cast(vote.pk, True)


def _stands(choice: str) -> int:
    return int(choice != Vote.Choice.BACK)
