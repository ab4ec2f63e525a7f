"""Order waiting replies by disagreement, in runs with `people.ask_first`.

First come replies whose scorer is furthest from people's ratings. Without ratings it is compared
with the rater model's prediction, without a prediction with the mean label for such a scorer value
(its reliability diagram), and without labels with other scorers. The choice of replies stays
random, so that labels represent all replies; only their order changes.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from django.db import connection

from apps.feedback.expected_benefit import distance_from_people
from apps.feedback.models import Calibration, Item, Slot
from apps.feedback.rater_model.learning import predict_rollouts
from apps.rewards.combining import find_scorer_range
from apps.rewards.models import Reward
from apps.rollouts.models import Group
from apps.runs.models import Run
from apps.statistics.calibration import BINS, MIN_LABELS, scale_to_range

MAX_REORDERED = 1_000  # the most open slots reordered, the most urgent ones
ScorerValues = Mapping[str, float]


def orders_by_calibration(run: Run) -> bool:
    return run.settings.people.ask_first == "disagreement"


def due_by_item(items: Sequence[Item], groups: Iterable[Group]) -> dict[int, datetime]:
    """Return when each item is due, for groups whose run orders by disagreement.

    The more disputed an item is, the earlier it is due.
    """
    homes = {group.pk: group for group in groups if orders_by_calibration(group.run)}
    ours = [item for item in items if item.group_id in homes]
    due_at_by_item: dict[int, datetime] = {}
    for run in {home.run_id: home.run for home in homes.values()}.values():
        run_items = [item for item in ours if item.run_id == run.pk]
        far = distances(run, {rollout for item in run_items for rollout in item.members})
        due_at_by_item |= {
            item.pk: _compute_due_at(homes[item.group_id].deadline_at, run, item.members, far)
            for item in run_items
        }
    return due_at_by_item


def reorder(run: Run) -> int:
    """Reorder the run's waiting slots by current disagreement; return how many were examined."""
    if not run.is_live or not orders_by_calibration(run):
        return 0
    slots = Slot.objects.filter(
        run=run, state=Slot.State.OPEN, is_required=True, group__state=Group.State.WAITING
    )
    rows = list(
        slots.order_by("due_at", "pk").values_list("pk", "group__deadline_at", "item__members")[
            :MAX_REORDERED
        ]
    )
    far = distances(run, {rollout for *_, members in rows for rollout in members})
    moved = [(pk, _compute_due_at(deadline, run, members, far)) for pk, deadline, members in rows]
    if moved:
        with connection.cursor() as cursor:
            cursor.execute(MOVE, [[pk for pk, _ in moved], [due_at for _, due_at in moved]])
    return len(moved)


# Slots that are being claimed are skipped, so that no claim waits for this.
MOVE = """
    WITH moved AS (SELECT * FROM unnest(%s::bigint[], %s::timestamptz[]) AS w(id, due_at)),
    free AS MATERIALIZED (
        SELECT s.id, moved.due_at FROM feedback_slot s JOIN moved ON moved.id = s.id
        WHERE s.state = 'open' AND abs(extract(epoch
            FROM s.due_at - moved.due_at)) > 0.5 FOR NO KEY UPDATE OF s SKIP LOCKED)
    UPDATE feedback_slot s SET due_at = free.due_at FROM free WHERE s.id = free.id"""


def _compute_due_at(
    deadline: datetime | None, run: Run, members: Sequence[int], far: Mapping[int, float]
) -> datetime:
    assert deadline is not None  # the group waits for people
    return deadline - timedelta(
        seconds=run.settings.people.deadline_s
        * max((far.get(pk, 0.0) for pk in members), default=0.0)
    )


def distances(run: Run, rollouts: Collection[int]) -> dict[int, float]:
    """Return how disputed each reply with a scorer's value is, from 0 to 1.

    Three statements, and those of the rater model.
    """
    names = {choice.scorer for choice in run.settings.rewards}
    scorers, people = _load_values(rollouts, names)
    unrated = [pk for pk in scorers if pk not in people]
    model = predict_rollouts(run, unrated) if unrated and run.settings.people.rater_model else {}
    usual = _usual(run)
    return {
        pk: distance_from_people(
            values, people.get(pk, model[pk][0] if pk in model else None), usual(values)
        )
        for pk, values in scorers.items()
    }


def _load_values(
    rollouts: Collection[int], names: set[str]
) -> tuple[dict[int, dict[str, float]], dict[int, float]]:
    """Return, by rollout, each scorer's value, scaled to 0 to 1, and the mean of people's ratings.

    One statement.
    """
    scorers: dict[int, dict[str, float]] = defaultdict(dict)
    people: dict[int, list[float]] = defaultdict(list)
    current = Reward.objects.filter(rollout__in=rollouts, is_current=True).exclude(value=None)
    current = current.without_simulated()
    for rollout, source, scorer, by, value in current.values_list(
        "rollout", "source", "scorer", "by", "value"
    ):
        if value is None:
            continue
        if by is not None and source == Reward.Source.HUMAN:
            people[rollout].append(value)
        elif scorer in names:
            scorers[rollout][scorer] = scale_to_range(value, *find_scorer_range(scorer))
    return scorers, {pk: math.fsum(values) / len(values) for pk, values in people.items()}


def _usual(run: Run):
    """Return a function that gives people's mean label for such scorer values, by scorer.

    It uses bins with enough labels.
    """
    rows = Calibration.objects.filter(run=run, domain=None).values_list("scorer", "metrics")
    bins = {
        scorer: {round(label_bin["low"] * BINS): label_bin for label_bin in metrics["bins"]}
        for scorer, metrics in rows
    }

    def usual(values: ScorerValues) -> dict[str, float]:
        bins_by_scorer = {
            scorer: bins.get(scorer, {}).get(min(int(value * BINS), BINS - 1))
            for scorer, value in values.items()
        }
        return {
            scorer: label_bin["people"]
            for scorer, label_bin in bins_by_scorer.items()
            if label_bin and label_bin["count"] >= MIN_LABELS
        }

    return usual
