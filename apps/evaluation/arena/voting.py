"""Save and withdraw votes about pairs.

Both append a row. The pairing's row is locked, so that its count is right. A repeat with the same
client uuid returns the same vote.
"""

import uuid
from dataclasses import dataclass

from django.db import IntegrityError, transaction
from django.db.models import F

from apps.accounts.locking import lock_one
from apps.accounts.models import User
from apps.evaluation.arena.pairs import Pair, find_pair, first_is_left
from apps.evaluation.models import Arena, Pairing, Vote
from apps.feedback.forms import BadAnswer
from apps.feedback.ratings.answers import Refused

LEFT = "left"
RIGHT = "right"
CHOICES = (LEFT, RIGHT, Vote.Choice.TIE.value, Vote.Choice.BAD.value)
MAX_MS = 86_400_000


@dataclass(frozen=True)
class CastVote:
    vote: int
    is_new: bool


def list_pairings(arena: Arena) -> list[Pairing]:
    """Return the arena's pairings, 66 at most."""
    return list(arena.pairings.select_related("first", "second").order_by("pk"))


def cast(
    user: User,
    arena: Arena,
    name: object,
    value: object,
    client_uuid: uuid.UUID,
    milliseconds: int | None = None,
) -> CastVote:
    """Save a vote; `value` names the better side as it was shown.

    Raises Refused and BadAnswer.
    """
    if value not in CHOICES:
        raise BadAnswer({"choice": f"must be one of {', '.join(CHOICES)}"})
    pair = find_pair(arena, list_pairings(arena), user, name)
    if pair is None:
        raise BadAnswer({"pair": "is not a pair that you were shown in this arena"})
    return _append(user, arena, pair, _choice(arena, user, pair, value), client_uuid, milliseconds)


def take_back(user: User, arena: Arena, client_uuid: uuid.UUID, new_uuid: uuid.UUID) -> Pair:
    """Withdraw a person's own vote, so that the pair is judged again. Raises Refused."""
    vote = (
        Vote.objects.filter(rater=user, client_uuid=client_uuid, pairing__arena=arena)
        .select_related("task")
        .first()
    )
    if vote is None or vote.choice == Vote.Choice.BACK:
        raise Refused("gone", "You have no such vote in this arena.")
    pairing = Pairing.objects.select_related("first", "second").get(pk=vote.pairing_id)
    pair = Pair(pairing, vote.task_id, vote.task.index, vote.sample_index)
    _append(user, arena, pair, Vote.Choice.BACK.value, new_uuid, None, only_after=vote)
    return pair


def _choice(arena: Arena, user: User, pair: Pair, choice: str) -> str:
    if choice not in (LEFT, RIGHT):
        return choice
    is_first = (choice == LEFT) == first_is_left(arena, user, pair)
    return (Vote.Choice.FIRST if is_first else Vote.Choice.SECOND).value


@transaction.atomic
def _append(
    user: User,
    arena: Arena,
    pair: Pair,
    choice: str,
    client_uuid: uuid.UUID,
    milliseconds: int | None,
    only_after: Vote | None = None,
) -> CastVote:
    """Append a row; `only_after` must still be the person's newest vote. Raises Refused."""
    lock_one(Pairing.objects.filter(pk=pair.pairing.pk))
    where = {"pairing": pair.pairing, "task_id": pair.task_id, "sample_index": pair.sample}
    existing = Vote.objects.filter(rater=user, client_uuid=client_uuid).first()
    if existing:
        if (
            any(getattr(existing, field) != value for field, value in where.items())
            or existing.choice != choice
        ):
            raise Refused(
                "used_uuid",
                "This client_uuid was already used for another vote. Use a new one.",
            )
        return CastVote(existing.pk, False)
    if Arena.objects.filter(pk=arena.pk, closed_at__isnull=False).exists():
        raise Refused(
            "closed",
            "This arena is closed. Earlier votes count.",
        )
    before = Vote.objects.filter(rater=user, **where).order_by("-pk").first()
    if only_after and (before is None or before.pk != only_after.pk):
        raise Refused(
            "changed",
            "You have a newer vote on this pair, perhaps from another window. It is kept.",
        )
    vote = Vote(
        rater=user,
        choice=choice,
        first_on_left=first_is_left(arena, user, pair),
        client_uuid=client_uuid,
        milliseconds=milliseconds,
        **where,
    )
    try:
        with transaction.atomic():
            vote.save()
    except IntegrityError:  # a concurrent vote about a pair of another pairing
        raise Refused(
            "used_uuid", "This client_uuid was already used for another vote. Use a new one."
        ) from None
    change = _vote_count(choice) - _vote_count(before.choice if before else Vote.Choice.BACK)
    Pairing.objects.filter(pk=pair.pairing.pk).update(votes=F("votes") + change)
    return CastVote(vote.pk, True)


def _vote_count(choice: str) -> int:
    return int(choice != Vote.Choice.BACK)
