"""Stars for a rollout wherever it is seen: on the live wall, on its page, over REST.

The holder of the rollout's item may give them. Others may if the run takes stars without a claim,
as long as fewer than `overlap` people have rated the rollout or hold it.
"""

import uuid
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q, QuerySet

from apps.accounts.locking import lock_first, lock_rows, unit_of_work
from apps.accounts.models import User
from apps.feedback.forms import FORMS
from apps.feedback.models import STARS, Intervention, Rating, Slot
from apps.feedback.ratings.answers import UsedUuid
from apps.feedback.ratings.intake import Decision, comes_late, enter_ratings, finish_group
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run
from apps.runs.raters import closed_domains, rated_by, takes_open_stars

CLAIM_FIRST = (
    "This run accepts ratings only from raters who hold the item. Claim it on the Rate page or"
    " over REST."
)
DELETED = "The run of this reply is being deleted."
USED_UUID = "This client_uuid was already used for another rating. Use a new one."
ENOUGH = "This reply has enough raters: {people} other rater{s} already."


class NotRatable(Exception):
    """Raised for a rollout that cannot be rated; the message says why."""


class NotHeld(NotRatable):
    """Raised for a run that takes stars from the holder of the item only."""


class UsedForAnother(NotRatable):
    """Raised for a client uuid that identifies another rating of the same person."""


class EnoughRated(NotRatable):
    """Raised for a rollout that enough people have rated, or hold."""


@dataclass(frozen=True)
class Stars:
    """One rating as submitted."""

    rollout_id: int
    stars: int
    client_uuid: uuid.UUID

    @property
    def key(self) -> tuple[int, uuid.UUID]:
        """Return the key that identifies the rating among its rater's, however often it is sent."""
        return self.rollout_id, self.client_uuid


def give(rater: User, stars: Stars) -> Rating:
    """Save one rating.

    A repeat with the same client uuid returns the first row. Raises NotRatable.
    """
    [outcome] = give_many(rater, [stars])
    if isinstance(outcome, NotRatable):
        raise outcome
    return outcome


def give_many(rater: User, batch: list[Stars]) -> list[Rating | NotRatable]:
    """Save many ratings and return their outcomes, in order.

    One transaction and a fixed number of statements for each group. Each outcome is what `give`
    would have returned or raised for the rating alone, except that no rating of a batch is late
    because an earlier one of it completed their group.
    """
    homes = dict(
        ratable_by(rater, {stars.rollout_id for stars in batch}).values_list("pk", "group_id")
    )
    by_group: dict[int, list[Stars]] = defaultdict(list)
    for stars in batch:
        if stars.rollout_id in homes:
            by_group[homes[stars.rollout_id]].append(stars)
    outcomes: dict[tuple[int | None, uuid.UUID], Rating | NotRatable] = {}
    for group_id in sorted(by_group):
        outcomes |= _give_to_group_again(rater, group_id, by_group[group_id])
    return [
        outcomes.get(s.key)
        or NotRatable(f"rollout {s.rollout_id} doesn’t exist, or you can’t rate it")
        for s in batch
    ]


def ratable_by(rater: User, rollouts: Iterable[int]) -> QuerySet[Rollout]:
    """Return those of these finished rollouts that this person may rate and wrote no part of."""
    ids = list(rollouts)
    runs = Run.objects.filter(rollouts__in=ids)
    return _finished_for(rater).filter(pk__in=ids).exclude(closed_domains(rater, runs))


def openly_ratable_by(rater: User, rollouts: Iterable[int]) -> QuerySet[Rollout]:
    """Return those of them that may be rated without a claim."""
    return ratable_by(rater, rollouts).filter(takes_open_stars("run__"))


def _finished_for(rater: User) -> QuerySet[Rollout]:
    """Return finished rollouts of the runs that this person rates, without those they wrote."""
    wrote = Intervention.objects.filter(Intervention.TYPED, rollout=OuterRef("pk"), by=rater)
    finished = Rollout.objects.filter(
        run__in=rated_by(rater), state=Rollout.State.FINISHED, origin=Rollout.Origin.POLICY
    )
    return finished.filter(~Exists(wrote))


def _give_to_group_again(
    rater: User, group_id: int, batch: list[Stars]
) -> dict[tuple[int | None, uuid.UUID], Rating | NotRatable]:
    """Save one group's ratings, and once more for each uuid that another request uses meanwhile.

    The next attempt reads the rating that has the uuid, and refuses only what conflicts with it.
    """
    for _ in batch:
        try:
            return _give_to_group(rater, group_id, batch)
        except UsedUuid:
            continue
    return _give_to_group(rater, group_id, batch)


@unit_of_work
def _give_to_group(
    rater: User, group_id: int, batch: list[Stars]
) -> dict[tuple[int | None, uuid.UUID], Rating | NotRatable]:
    """Return by Stars.key the ratings there were, the new ones with their rewards, and refusals."""
    # The group's row is locked first, which serialises ratings of one group and its refiner.
    group = lock_first(Group.objects.filter(pk=group_id).select_related("run"))
    if group is None or group.run.state == Run.State.DELETING:
        return {stars.key: NotRatable(DELETED) for stars in batch}
    existing = Rating.objects.filter(
        rater=rater, client_uuid__in={stars.client_uuid for stars in batch}
    )
    outcomes: dict[tuple[int | None, uuid.UUID], Rating | NotRatable] = {
        (rating.rollout_id, rating.client_uuid): rating
        for rating in existing
        if rating.form == STARS
    }
    used = {rating.client_uuid for rating in existing}
    fresh = _first_of_each(stars for stars in batch if stars.client_uuid not in used)
    answered = outcomes.keys() | {stars.key for stars in fresh}
    for stars in batch:
        if stars.key not in answered:
            outcomes[stars.key] = UsedForAnother(USED_UUID)
    refused = _refused_rollouts(rater, group, {stars.rollout_id for stars in fresh})
    for stars in fresh:
        if stars.rollout_id in refused:
            outcomes[stars.key] = refused[stars.rollout_id]
    fresh = [stars for stars in fresh if stars.rollout_id not in refused]
    if fresh:
        written = _write(rater, group, fresh)
        outcomes |= {(rating.rollout_id, rating.client_uuid): rating for rating in written}
    return outcomes


def _refused_rollouts(rater: User, group: Group, rollouts: set[int]) -> dict[int, NotRatable]:
    """Return the rollouts that this person may not rate, with the reasons; the group is locked.

    A person who changes a rating keeps the place. A simulated rating takes no person's place.
    """
    people = group.run.settings.people
    slots = Slot.objects.filter(group=group, state=Slot.State.HELD, item__form=STARS)
    slots = slots.select_related("item", "rater")
    holders = [(slot.item.members[0], slot.rater_id, slot.rater) for slot in slots]
    standing = Rating.objects.counting().filter(rollout__in=rollouts, form=STARS)
    standing = standing.select_related("rater")
    raters = [(rating.rollout_id, rating.rater_id, rating.rater) for rating in standing]
    own_rollouts = {rollout for rollout, pk, _ in (*holders, *raters) if pk == rater.pk}
    other_raters: dict[int, set[int]] = defaultdict(set)
    for rollout, pk, person in (*holders, *raters):
        if pk not in (None, rater.pk) and (rater.is_simulated or not person.is_simulated):
            other_raters[rollout].add(pk)
    refused: dict[int, NotRatable] = {}
    for rollout in rollouts - own_rollouts:
        if not people.open_stars:
            refused[rollout] = NotHeld(CLAIM_FIRST)
        elif len(other_raters[rollout]) >= people.overlap:
            plural = "s" if people.overlap > 1 else ""
            refused[rollout] = EnoughRated(ENOUGH.format(people=people.overlap, s=plural))
    return refused


def _write(rater: User, group: Group, fresh: list[Stars]) -> list[Rating]:
    """Write the ratings, fill the slots that they answer, and pass the group on if it is complete.

    The last rating of a reply is the current one. It stays tied to the item of the one that it
    replaces.
    """
    people = group.run.settings.people
    last = {stars.rollout_id: stars.client_uuid for stars in fresh}
    current = Rating.objects.filter(rater=rater, rollout__in=last, form=STARS, is_current=True)
    earlier = {rating.rollout_id: rating for rating in current.order_by("pk")}
    filled = _fill_slots(rater, group, set(last)) if group.state == Group.State.WAITING else []
    item_of = {slot.item.members[0]: slot.item_id for slot in filled}
    item_of |= {rating.members[0]: rating.item_id for rating in earlier.values() if rating.item_id}
    decisions = [
        Decision(
            form=STARS,
            answer=FORMS[STARS].parse({"stars": stars.stars}, [stars.rollout_id], people),
            shown=[stars.rollout_id],
            client_uuid=stars.client_uuid,
            item_id=item_of.get(stars.rollout_id),
            replaces=earlier[stars.rollout_id].pk if stars.rollout_id in earlier else None,
            is_current=last[stars.rollout_id] == stars.client_uuid,
        )
        for stars in fresh
    ]
    ids = enter_ratings(
        rater,
        group,
        people,
        decisions,
        is_late=comes_late(group),
        replaced=[rating.pk for rating in earlier.values()],
        slots=[slot.pk for slot in filled],
    )
    finish_group(group, people)
    return list(Rating.objects.filter(pk__in=ids).select_related("run"))


def _fill_slots(rater: User, group: Group, rated: set[int]) -> list[Slot]:
    """Return the slots that ratings of these replies fill, so that nobody is asked again.

    Each rated reply fills its own slot. If it is rated for the first time without being asked
    about, it stands in for another reply of its group, whose slot is closed. The slots are locked:
    a claim does not lock the group, and what it has just taken is not taken from its holder.
    """
    rated_before = set(
        Rating.objects.filter(rollout__in=rated).values_list("rollout_id", flat=True)
    )
    open_or_own = Slot.objects.filter(
        Q(state=Slot.State.OPEN) | Q(state=Slot.State.HELD, rater=rater),
        group=group,
        is_required=True,
        item__form=STARS,
    )
    candidate_slots = lock_rows(open_or_own.select_related("item"))
    candidate_slots.sort(key=lambda slot: (slot.place, -slot.pk))
    held_already = set(Slot.objects.filter(group=group, rater=rater).values_list("item_id", "pk"))
    filled = []
    closed = []
    for rollout in sorted(rated):
        if own_slot := _slot_of_reply(candidate_slots, rollout, held_already):
            filled.append(own_slot)
            candidate_slots.remove(own_slot)
        elif rollout not in rated_before and (
            other_slot := _slot_of_others(candidate_slots, rated)
        ):
            closed.append(other_slot.pk)
            candidate_slots.remove(other_slot)
    Slot.objects.filter(pk__in=closed).update(state=Slot.State.CLOSED)
    unclaimed = [slot.pk for slot in filled if slot.state == Slot.State.OPEN]
    Slot.objects.filter(pk__in=unclaimed).update(held_at=None)
    return filled


def _slot_of_reply(
    slots: list[Slot], rollout: int, held_already: set[tuple[int, int]]
) -> Slot | None:
    """Return the first slot of the reply's own item that the person may fill."""
    for slot in slots:
        if slot.item.members == [rollout] and _is_free(slot, held_already):
            return slot
    return None


def _slot_of_others(slots: list[Slot], rated: set[int]) -> Slot | None:
    """Return the first open slot of a reply that is not among the rated ones."""
    for slot in slots:
        if slot.state == Slot.State.OPEN and slot.item.members[0] not in rated:
            return slot
    return None


def _is_free(slot: Slot, held_already: set[tuple[int, int]]) -> bool:
    """Tell whether the person holds no other slot of the item."""
    return all(item != slot.item_id or pk == slot.pk for item, pk in held_already)


def _first_of_each(batch: Iterable[Stars]) -> list[Stars]:
    """Return the ratings without repeated client uuids."""
    first: dict[uuid.UUID, Stars] = {}
    for stars in batch:
        first.setdefault(stars.client_uuid, stars)
    return list(first.values())


def waiting_rollouts(rater: User) -> QuerySet[Rollout]:
    """Return the replies that wait for this person's stars, the most urgent deadline first."""
    own_ratings = Rating.objects.filter(rollout=OuterRef("pk"), rater=rater)
    slots = Slot.objects.filter(group=OuterRef("group"), state=Slot.State.OPEN, item__form=STARS)
    running = Run.objects.running()
    waiting = _finished_for(rater).exclude(closed_domains(rater, running))
    waiting = waiting.filter(takes_open_stars("run__"))
    waiting = waiting.filter(group__state=Group.State.WAITING, run__state=Run.State.RUNNING)
    return waiting.filter(Exists(slots), ~Exists(own_ratings)).order_by("group__deadline_at", "pk")
