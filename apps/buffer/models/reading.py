"""Sampling from the buffer: the groups that a run's next step takes, by the run's `reading`."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

from django.db.models import F, Min, Q, QuerySet
from django.db.models.functions import Coalesce

from apps.buffer.models.experiences import Experience
from apps.buffer.reading import ReadingState, ReadyGroup, TrainedGroup, order_groups, taken_again
from apps.rollouts.models import Group
from apps.runs.admission import groups_to_wait_for, oldest_allowed
from apps.runs.models import Run, TrainStep
from apps.runs.reading import Order, Rarity

# The app of rewards is a peer of the buffer, so rewards are reached through the rollout. Late ones
# do not count.
PEOPLES = {
    "rollout__rewards__source": "human",
    "rollout__rewards__is_current": True,
    "rollout__rewards__value__isnull": False,
    "rollout__rewards__details__is_late__isnull": True,
    "rollout__rewards__details__is_simulated__isnull": True,
}
# Simulated ratings are excluded. NULL is the author of people's aggregate reward.
BY_PERSON = Q(rollout__rewards__by=None) | Q(rollout__rewards__by__is_simulated=False)

IN_MACHINES_HANDS = (Group.State.SAMPLING, Group.State.SCORING, Group.State.JUDGED)
KINDS = {"domain": "group__task__domain", "task": "group__task"}  # columns that `rarity` counts by


def next_groups(run: Run) -> list[int]:
    """Return the ids of the groups of the run's next step, replayed ones included.

    The list is empty while too few groups are ready.
    """
    plan = run.settings
    count = plan.groups_per_step
    ready = ready_groups(run, count)
    if len(ready) < count - plan.groups_again_per_step or stragglers(run):
        return []
    again = groups_again(run)
    fresh = ready[: count - len(again)]
    return fresh + again if len(fresh) + len(again) == count else []


def stragglers(run: Run) -> int:
    """Return how many groups in progress the next step must wait for.

    With over-rollout, a step waits for a group that would be too stale for the steps after it.
    Groups that wait for people do not count, because the run has a deadline for them.
    """
    plan = run.settings
    if plan.over_rollout is None:
        return 0
    oldest = oldest_allowed(run.step // plan.sync_interval, plan.max_staleness)
    begun = run.groups.filter(state__in=IN_MACHINES_HANDS, opened_version__gte=oldest).exclude(
        draw_index=None
    )
    ready = Experience.objects.usual().filter(run=run, state=Experience.State.READY)
    versions = (
        ready.order_by()
        .values("group")
        .annotate(version=Min("weight_version"))
        .values_list("version", flat=True)
    )
    return groups_to_wait_for(
        run.pace, list(versions), list(begun.values_list("opened_version", flat=True))
    )


def ready_groups(run: Run, count: int) -> list[int]:
    """Return the ids of the first `count` groups with ready experiences, in the run's order."""
    rule = run.settings.reading.order
    if rule.name == "fifo":
        return Experience.objects.oldest_groups(run, count)
    ready = Experience.objects.usual().filter(run=run, state=Experience.State.READY)
    experiences: dict[tuple[int, int], list[tuple[int, float]]] = defaultdict(list)
    for group, draw, *numbers in ready.values_list(
        "group", "group__draw_index", "weight_version", "reward"
    ):
        experiences[group, draw].append(tuple(numbers))
    rated = _rated(ready) if rule.name == "human_first" or getattr(rule, "people", False) else set()
    kinds = _kinds(ready, rule)
    groups = [
        ReadyGroup(
            group,
            draw,
            min(version for version, _ in of),
            [reward for _, reward in of],
            group in rated,
            kinds.get(group, ""),
        )
        for (group, draw), of in experiences.items()
    ]
    return order_groups(groups, rule, _now(run, rule))[:count]


def _now(run: Run, rule: Order) -> ReadingState:
    learned = _learned(run, rule) if rule.name == "rarity" else None
    return ReadingState(
        run.step // run.settings.sync_interval, run.step + 1, run.settings.seed, learned
    )


def _kinds(experiences: QuerySet[Experience], rule: Order) -> dict[int, str | int]:
    """Return the kind of each group that the `rarity` rule counts by; empty for the other rules."""
    if rule.name != "rarity":
        return {}
    return dict(experiences.values_list("group", KINDS[rule.count_by]).distinct())


def _learned(run: Run, rule: Rarity) -> dict[str | int, int]:
    """Return, by kind, how many groups the newest steps took, each use counted."""
    recent = run.steps.filter(state=TrainStep.State.COMMITTED, number__gt=run.step - rule.window)
    taken_experiences = Experience.objects.usual().filter(step_items__step__in=recent)
    pairs = taken_experiences.values_list(
        KINDS[rule.count_by], "group", "step_items__step"
    ).distinct()
    return dict(Counter(kind for kind, *_ in pairs))


def _rated(experiences: QuerySet[Experience]) -> set[int]:
    """Return the groups in whose rewards a person's rating counts; simulated ratings don't."""
    return set(experiences.filter(BY_PERSON, **PEOPLES).values_list("group", flat=True))


def groups_again(run: Run) -> list[int]:
    """Return the ids of the trained groups that the next step replays, by `reading.replay`."""
    plan = run.settings
    number = run.step + 1
    if not plan.groups_again_per_step:
        return []
    oldest = oldest_allowed(run.step // plan.sync_interval, plan.max_staleness)
    # No step that took a group was planned at a version older than the group's.
    since = oldest * plan.sync_interval
    bounds = {"number": number, "limit": plan.groups_again_per_step, "oldest": oldest}
    return taken_again(_trained(run, since), plan.reading.replay, **bounds, seed=plan.seed)


def _trained(run: Run, since: int) -> list[TrainedGroup]:
    """Return the groups that committed steps after `since` took.

    Groups that people have excluded from training are left out.
    """
    rows = Experience.objects.usual().filter(
        run=run,
        state=Experience.State.TRAINED,
        reason="",
        step_items__step__state=TrainStep.State.COMMITTED,
        step_items__step__number__gt=since,
    )
    rows = rows.exclude(group__task__in=run.left_out.values("task"))
    # Raising the staleness bound does not bring released arrays back.
    rows = rows.exclude(group__rollouts__arrays_released_at__isnull=False)
    rows = rows.annotate(
        number=F("step_items__step__number"), counted=Coalesce("step_items__advantage", "advantage")
    )
    experiences: dict[tuple[int, int], list[tuple[int, int, int, float]]] = defaultdict(list)
    for group, draw, *numbers in rows.values_list(
        "group", "group__draw_index", "weight_version", "uses", "number", "counted"
    ):
        experiences[group, draw].append(tuple(numbers))
    return [_group(group, draw, of) for (group, draw), of in experiences.items()]


def _group(group: int, draw: int, rows: Sequence[tuple[int, int, int, float]]) -> TrainedGroup:
    """Build a Trained from the (version, uses, step number, advantage) rows of one group."""
    versions, uses, numbers, _ = zip(*rows, strict=True)
    last = max(numbers)
    counted = [abs(advantage) for _, _, number, advantage in rows if number == last]
    return TrainedGroup(
        group, draw, min(versions), max(uses), last, math.fsum(counted) / len(counted)
    )
