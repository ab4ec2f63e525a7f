"""Stars for a rollout wherever it is seen: on the live wall, on its page, over REST.

The holder of the rollout's item may give them. Others may if the run takes stars without a claim,
as long as fewer than `overlap` people have rated the rollout or hold it.
"""

import uuid
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet

from apps.accounts.locking import lock_first, unit_of_work
from apps.accounts.models import User
from apps.feedback.group_completion import settle_group
from apps.feedback.models import STARS, Intervention, Rating, RatingReward, Slot
from apps.rewards.models import LATE, Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run
from apps.runs.raters import closed_domains, rated_by, takes_open_stars

CLAIM_FIRST = (
    "This run accepts ratings only from raters who hold the item. Claim it on the Rate page or"
    " over REST."
)
DELETED = "The run of this reply is being deleted."
ENOUGH = "This reply has enough raters: {people} other rater{s} already."


class NotRatable(Exception):
    """Raised for a rollout that cannot be rated; the message says why."""


class NotHeld(NotRatable):
    """Raised for a run that takes stars from the holder of the item only."""


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

    def reward(self, rater: User, is_late: bool) -> Reward:
        """Return its unsaved reward: one star is 0, five are 1."""
        value = (self.stars - 1) / 4
        details = {"stars": self.stars, **({LATE: True} if is_late else {})}
        return Reward(
            rollout_id=self.rollout_id,
            source=Reward.Source.HUMAN,
            scorer=STARS,
            value=value,
            details=details,
            by=rater,
        )


def give(rater: User, stars: Stars) -> Rating:
    """Save one rating.

    A repeat with the same client uuid returns the first row. Raises NotRatable.
    """
    [outcome] = give_many(rater, [stars])
    if isinstance(outcome, NotRatable):
        raise outcome
    return outcome


def give_many(rater: User, given: list[Stars]) -> list[Rating | NotRatable]:
    """Save many ratings and return their outcomes, in order.

    One transaction and a fixed number of statements for each group. Each outcome is what `give`
    would have returned or raised for the rating alone, except that no rating of a batch is late
    because an earlier one of it completed their group.
    """
    homes = dict(
        ratable_by(rater)
        .filter(pk__in={stars.rollout_id for stars in given})
        .values_list("pk", "group_id")
    )
    by_group: dict[int, list[Stars]] = defaultdict(list)
    for stars in given:
        if stars.rollout_id in homes:
            by_group[homes[stars.rollout_id]].append(stars)
    taken: dict[tuple[int | None, uuid.UUID], Rating | NotRatable] = {}
    for group_id in sorted(by_group):
        taken |= _give_to_group(rater, group_id, by_group[group_id])
    return [
        taken.get(s.key)
        or NotRatable(f"rollout {s.rollout_id} doesn’t exist, or you can’t rate it")
        for s in given
    ]


def ratable_by(rater: User) -> QuerySet[Rollout]:
    """Return finished rollouts that this person may rate and wrote no part of."""
    wrote = Intervention.objects.filter(Intervention.TYPED, rollout=OuterRef("pk"), by=rater)
    finished = Rollout.objects.filter(
        run__in=rated_by(rater), state=Rollout.State.FINISHED, origin=Rollout.Origin.POLICY
    )
    return finished.filter(~Exists(wrote)).exclude(closed_domains(rater))


def openly_ratable_by(rater: User) -> QuerySet[Rollout]:
    """Return those of them that may be rated without a claim."""
    return ratable_by(rater).filter(takes_open_stars("run__"))


@unit_of_work
def _give_to_group(
    rater: User, group_id: int, given: list[Stars]
) -> dict[tuple[int | None, uuid.UUID], Rating | NotRatable]:
    """Return by Stars.key the ratings there were, the new ones with their rewards, and refusals."""
    # The group's row is locked first, which serialises ratings of one group and its refiner.
    group = lock_first(Group.objects.filter(pk=group_id).select_related("run"))
    if group is None or group.run.state == Run.State.DELETING:
        return {stars.key: NotRatable(DELETED) for stars in given}
    known = Rating.objects.filter(
        rater=rater, client_uuid__in={stars.client_uuid for stars in given}
    )
    taken: dict[tuple[int | None, uuid.UUID], Rating | NotRatable] = {
        (rating.rollout_id, rating.client_uuid): rating for rating in known
    }
    used = {client_uuid for _, client_uuid in taken}
    fresh = _first_of_each(
        stars for stars in given if stars.key not in taken and stars.client_uuid not in used
    )
    refused = _refused(rater, group, {stars.rollout_id for stars in fresh})
    for stars in fresh:
        if stars.rollout_id in refused:
            taken[stars.key] = refused[stars.rollout_id]
    fresh = [stars for stars in fresh if stars.rollout_id not in refused]
    if fresh:
        about = {stars.rollout_id for stars in fresh}
        known_before = set(
            Rating.objects.filter(rollout__in=about).values_list("rollout_id", flat=True)
        )
        written = _write(rater, group, fresh)
        taken |= {(rating.rollout_id, rating.client_uuid): rating for rating in written}
        if group.state == Group.State.WAITING:
            _fill_slots(rater, group, about, about - known_before)
            settle_group(group)
    return taken


def _refused(rater: User, group: Group, rollouts: set[int]) -> dict[int, NotRatable]:
    """Return the rollouts that this person may not rate, with the reasons; the group is locked.

    A person who changes a rating keeps the place. A simulated rating takes no person's place.
    """
    people = group.run.settings.people
    slots = Slot.objects.filter(group=group, state=Slot.State.HELD, item__form=STARS)
    slots = slots.select_related("item", "rater")
    held = [(slot.item.members[0], slot.rater_id, slot.rater) for slot in slots]
    standing = Rating.objects.counting().filter(rollout__in=rollouts, form=STARS)
    standing = standing.select_related("rater")
    said = [(rating.rollout_id, rating.rater_id, rating.rater) for rating in standing]
    mine = {rollout for rollout, pk, _ in (*held, *said) if pk == rater.pk}
    others: dict[int, set[int]] = defaultdict(set)
    for rollout, pk, other in (*held, *said):
        if pk not in (None, rater.pk) and (rater.is_simulated or not other.is_simulated):
            others[rollout].add(pk)
    refused: dict[int, NotRatable] = {}
    for rollout in rollouts - mine:
        if not people.open_stars:
            refused[rollout] = NotHeld(CLAIM_FIRST)
        elif len(others[rollout]) >= people.overlap:
            plural = "s" if people.overlap > 1 else ""
            refused[rollout] = EnoughRated(ENOUGH.format(people=people.overlap, s=plural))
    return refused


def _write(rater: User, group: Group, fresh: list[Stars]) -> list[Rating]:
    is_late = group.state not in Group.HEARING
    rewards = Reward.record_words(rater, STARS, [stars.reward(rater, is_late) for stars in fresh])
    last = {stars.rollout_id: stars.client_uuid for stars in fresh}
    earlier = {
        rating.rollout_id: rating
        for rating in Rating.objects.filter(
            rater=rater, rollout__in=last, form=STARS, is_current=True
        ).order_by("pk")
    }
    Rating.objects.filter(pk__in=[rating.pk for rating in earlier.values()]).update(
        is_current=False
    )
    ratings = Rating.objects.bulk_create(
        Rating(
            rollout_id=stars.rollout_id,
            run_id=group.run_id,
            rater=rater,
            form=STARS,
            answer={"stars": stars.stars},
            shown=[stars.rollout_id],
            client_uuid=stars.client_uuid,
            is_late=is_late,
            replaces=earlier.get(stars.rollout_id),
            item_id=earlier[stars.rollout_id].item_id if stars.rollout_id in earlier else None,
            is_current=last[stars.rollout_id] == stars.client_uuid,
        )
        for stars in fresh
    )
    RatingReward.objects.bulk_create(
        RatingReward(rating=rating, reward=reward)
        for rating, reward in zip(ratings, rewards, strict=True)
    )
    return ratings


def _fill_slots(rater: User, group: Group, rated: set[int], first_time: set[int]) -> None:
    """Fill slots with the ratings, so that nobody is asked again.

    Each rated reply fills its own slot. If it is rated for the first time without being asked
    about, it replaces another reply of its group.
    """
    asked = list(
        Slot.objects.filter(
            group=group,
            is_required=True,
            state__in=[Slot.State.OPEN, Slot.State.HELD],
            item__form=STARS,
        )
        .filter(Q(state=Slot.State.OPEN) | Q(rater=rater))
        .select_related("item")
        .order_by("place", "-pk")
    )
    held_already = set(Slot.objects.filter(group=group, rater=rater).values_list("item_id", "pk"))
    done = []
    stood_in = []
    for rollout in sorted(rated):
        own = next(
            (
                slot
                for slot in asked
                if slot.item.members == [rollout] and _is_free(slot, held_already)
            ),
            None,
        )
        other = next(
            (
                slot
                for slot in asked
                if slot.state == Slot.State.OPEN and slot.item.members[0] not in rated
            ),
            None,
        )
        if own:
            done.append(own)
        elif other and rollout in first_time:
            stood_in.append(other)
        asked = [slot for slot in asked if slot not in (own, other if other in stood_in else None)]
    Slot.objects.filter(pk__in=[slot.pk for slot in stood_in]).update(state=Slot.State.CLOSED)
    unclaimed = [slot.pk for slot in done if slot.state == Slot.State.OPEN]
    Slot.objects.filter(pk__in=unclaimed).update(held_at=None)
    Slot.objects.filter(pk__in=[slot.pk for slot in done]).update(
        state=Slot.State.DONE, rater=rater, lease_until=None
    )
    _tie_to_items(rater, [slot.item_id for slot in done])


def _is_free(slot: Slot, held_already: set[tuple[int, int]]) -> bool:
    """Tell whether the person holds no other slot of the item."""
    return all(item != slot.item_id or pk == slot.pk for item, pk in held_already)


def _tie_to_items(rater: User, items: list[int]) -> None:
    """Link the person's current stars to these items."""
    sql = """
        UPDATE feedback_rating t SET item_id = i.id FROM feedback_item i
        WHERE i.id = ANY(%s) AND t.rollout_id = i.members[1] AND t.rater_id = %s
            AND t.form = 'stars' AND t.is_current
            AND t.item_id IS NULL"""
    with connection.cursor() as cursor:
        cursor.execute(sql, [items, rater.pk])


def _first_of_each(given: Iterable[Stars]) -> list[Stars]:
    """Return the ratings without repeated client uuids."""
    first: dict[uuid.UUID, Stars] = {}
    for stars in given:
        first.setdefault(stars.client_uuid, stars)
    return list(first.values())


def waiting_rollouts(rater: User) -> QuerySet[Rollout]:
    """Return the replies that wait for this person's stars, the most urgent deadline first."""
    mine = Rating.objects.filter(rollout=OuterRef("pk"), rater=rater)
    slots = Slot.objects.filter(group=OuterRef("group"), state=Slot.State.OPEN, item__form=STARS)
    waiting = openly_ratable_by(rater)
    waiting = waiting.filter(group__state=Group.State.WAITING, run__state="running")
    return waiting.filter(Exists(slots), ~Exists(mine)).order_by("group__deadline_at", "pk")
