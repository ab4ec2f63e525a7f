"""Open items for a scored group: its questions and slots, ordered by expected benefit."""

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db.models import Count

from apps.accounts.locking import lock_rows, unit_of_work
from apps.feedback.calibration.ordering import due_by_item
from apps.feedback.expected_benefit import worth
from apps.feedback.group_completion import settle_group
from apps.feedback.models import Item, Rating, open_slots
from apps.feedback.rater_model import asking
from apps.feedback.rater_model.anchoring import FORM, find_anchors, wants_anchor
from apps.feedback.rater_model.learning import unsure
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.people import COMPARES, People


@unit_of_work
def open_items(groups: Sequence[Group]) -> list[Item]:
    """Open items for those of these groups that wait for people.

    A group that needs no answers continues. Ratings that people gave while scorers still worked are
    not asked for again. The number of statements is fixed.
    """
    waiting = lock_rows(
        Group.objects.select_related("run").filter(
            pk__in=[group.pk for group in groups], state=Group.State.WAITING, items=None
        )
    )
    if not waiting:
        return []
    rollouts = _rollouts(waiting)
    rated = _rated(waiting)
    items = asking.build_questions(waiting, rollouts, rated)
    unplanned = [group for group in waiting if group.run.settings.people.schedule is None]
    items += [
        item for group in unplanned for item in _items(group, rollouts[group.pk], rated[group.pk])
    ]
    anchors = (
        find_anchors(waiting) if any(wants_anchor(group.run.settings) for group in waiting) else {}
    )
    for item in items:
        if item.form == FORM and item.repeats_id is None and item.group_id in anchors:
            item.members = sorted([*item.members, anchors[item.group_id]])
    Item.objects.bulk_create(items)
    judgements = _judgements(waiting)
    doubt = {group.pk: _unsure(group, rollouts[group.pk]) for group in unplanned}
    due_at = {
        group.pk: _due_at(group, judgements[group.pk], doubt.get(group.pk, 0.0))
        for group in waiting
    }
    # A repeated item may belong to a group closed long ago: it is as urgent as these.
    again = {item.group_id: max(due_at.values()) for item in items if item.group_id not in due_at}
    open_slots(items, due_at | again, due_by_item(items, waiting))
    for group in waiting:
        settle_group(group)
    return items


def _items(group: Group, rollouts: list[int], rated: dict[int, int]) -> list[Item]:
    people = group.run.settings.people
    chosen = random.Random(group.pk).sample(rollouts, min(people.per_group, len(rollouts)))
    if people.form in COMPARES:
        return [_item(group, people, members) for members in _compared(people, chosen, group.pk)]
    return [
        _item(group, people, [rollout], overlap)
        for rollout, overlap in _remaining_overlap(
            chosen, {pk: n for pk, n in rated.items() if pk in rollouts}, people.overlap
        )
    ]


def _remaining_overlap(
    chosen: list[int], rated: dict[int, int], overlap: int
) -> list[tuple[int, int]]:
    """Return (rollout, missing ratings); `rated` counts existing ones.

    A reply that was rated without being chosen replaces a chosen one.
    """
    unasked = [pk for pk in rated if pk not in chosen]
    still_chosen = chosen[: max(0, len(chosen) - len(unasked))]
    missing = {pk: overlap - rated.get(pk, 0) for pk in still_chosen}
    return [(pk, count) for pk, count in missing.items() if count > 0]


def _compared(people: People, chosen: list[int], seed: int) -> list[list[int]]:
    """Return the rollouts compared together: all at once, or pairs.

    In pairs each rollout occurs about equally often.
    """
    if len(chosen) < 2:
        return []
    if people.form != "pairwise":
        return [sorted(chosen)]
    count = people.pairs_among(len(chosen))
    # First a ring, so that all are connected; then any other pairs.
    ring = [sorted(pair) for pair in zip(chosen, [*chosen[1:], chosen[0]], strict=True)]
    all_pairs = [sorted(pair) for pair in itertools.combinations(chosen, 2)]
    random.Random(seed).shuffle(all_pairs)
    pairs = list({tuple(pair): pair for pair in [*ring, *all_pairs]}.values())
    return pairs[:count]


def _item(group: Group, people: People, members: list[int], overlap: int | None = None) -> Item:
    overlap = people.overlap if overlap is None else overlap
    return Item(
        run_id=group.run_id,
        group=group,
        form=people.form,
        members=sorted(members),
        overlap=overlap,
    )


def _unsure(group: Group, rollouts: list[int]) -> float:
    """Return the mean uncertainty of the run's rater model about the group.

    It is 0 under a schedule, which selects rows at random.
    """
    if group.run.settings.people.rater_model is None:
        return 0.0
    deviations = unsure(group.run, rollouts).values()
    return math.fsum(deviations) / len(deviations) if deviations else 0.0


def _due_at(group: Group, judgements: dict[int, dict[str, float]], uncertainty: float) -> datetime:
    """Return the due time: the deadline, moved earlier by a share that grows with the value."""
    people = group.run.settings.people
    assert group.deadline_at is not None  # it waits for people
    return group.deadline_at - timedelta(
        seconds=people.deadline_s * worth(list(judgements.values()), uncertainty)
    )


def _rollouts(groups: list[Group]) -> dict[int, list[int]]:
    rollouts_by_group: dict[int, list[int]] = defaultdict(list)
    usable = Rollout.objects.filter(
        group__in=groups, state=Rollout.State.FINISHED, origin=Rollout.Origin.POLICY
    )
    for pk, group in usable.order_by("sample_index").values_list("pk", "group_id"):
        rollouts_by_group[group].append(pk)
    return rollouts_by_group


def _rated(groups: list[Group]) -> dict[int, dict[int, int]]:
    """Return, by group and rollout, how many people have rated it."""
    counts: dict[int, dict[int, int]] = defaultdict(dict)
    people = Rating.objects.counting().by_people()
    ratings = people.filter(rollout__group__in=groups).values("rollout_id", "rollout__group_id")
    for row in ratings.annotate(n=Count("rater", distinct=True)).order_by():
        counts[row["rollout__group_id"]][row["rollout_id"]] = row["n"]
    return counts


def _judgements(groups: list[Group]) -> dict[int, dict[int, dict[str, float]]]:
    """Return, by group and rollout, each automatic scorer's value."""
    values_by_group: dict[int, dict[int, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    machine = Reward.objects.filter(rollout__group__in=groups, by=None, is_current=True).exclude(
        value=None
    )
    for group, rollout, scorer, value in machine.values_list(
        "rollout__group_id", "rollout_id", "scorer", "value"
    ):
        assert value is not None  # as filtered
        values_by_group[group][rollout][scorer] = value
    return values_by_group
