"""Checks of groups: counters, leases and states; and the numbers of groups by place."""

from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings
from django.db.models import Count, F, Max, Q
from django.db.models.functions import Now

from apps.buffer.models import Experience
from apps.rollouts.models import Group, Rollout
from apps.rollouts.partial import PartialRollout
from apps.runs.models import Run

SHOWN = 20


def expired_leases_are_taken_over() -> Iterator[str]:
    """Yield open groups of live runs whose lease expired long ago.

    An expired lease is taken over within two lease times, unless no worker looks for such leases.
    """
    long_ago = Now() - timedelta(seconds=2 * settings.LEASE_SECONDS)
    for group in Group.objects.filter(
        state__in=Group.OPEN, run__state=Run.State.RUNNING, lease_until__lt=long_ago
    ):
        yield (
            f"{group}: {group.state}; the lease of {group.lease_owner} expired at "
            f"{group.lease_until} and was not taken over"
        )


def groups_match_their_counters() -> Iterator[str]:
    """Yield runs whose counters differ from their open, admitted and dropped groups."""
    for run in Run.objects.annotate(
        issued=Count("groups__draw_index"), last=Max("groups__draw_index")
    ):
        if run.issued != run.groups_opened or run.issued != (
            0 if run.last is None else run.last + 1
        ):
            yield (
                f"{run}: the counter has {run.groups_opened} opened groups, but there are "
                f"{run.issued} rows, the last with index {run.last}"
            )
        stale = (
            Experience.objects.usual()
            .filter(run=run, state=Experience.State.DROPPED)
            .values("group")
            .distinct()
            .count()
        )
        dropped = run.groups.filter(state=Group.State.DROPPED).count() + stale
        if dropped != run.groups_dropped:
            yield (
                f"{run}: the counter has {run.groups_dropped} dropped groups, the rows {dropped}"
            )
        placed = {where: count for where, count in group_ledger(run).items() if where != "issued"}
        if sum(placed.values()) != run.issued:
            yield (
                f"{run}: {run.issued} groups issued, but {sum(placed.values())} have a known "
                f"state: {placed}"
            )
    sampled = Count("rollouts", filter=Q(rollouts__origin=Rollout.Origin.POLICY))
    for group in Group.objects.annotate(n=sampled).exclude(n=F("size")):
        # Plugin of django-stubs: a queryset class of our own loses the annotation.
        number = group.n  # type: ignore[attr-defined]
        yield f"{group}: has {number} rollouts, but its size is {group.size}"
    for admitted in Group.objects.filter(state=Group.State.ADMITTED, experiences=None):
        yield f"{admitted}: admitted, but has no experience"


def answer_only_groups_are_not_trained_on() -> Iterator[str]:
    """Yield answer-only groups that were admitted to training.

    Beyond its bound, a serving run answers without training on the answers.
    """
    admitted = Group.objects.filter(
        Q(state=Group.State.ADMITTED) | Q(experiences__isnull=False), answer_only=True
    ).distinct()
    yield from (
        f"{group}: admitted to training, although it is answer-only" for group in admitted[:SHOWN]
    )


def partial_rollouts_are_being_sampled() -> Iterator[str]:
    rows = PartialRollout.objects.exclude(
        rollout__state=Rollout.State.SAMPLING, rollout__group__state=Group.State.SAMPLING
    ).select_related("rollout__group")
    yield from (
        (
            f"{row}: the rollout is {row.rollout.state} and its group {row.rollout.group.state}; "
            "both must be sampling"
        )
        for row in rows[:SHOWN]
    )


def group_ledger(run: Run) -> dict[str, int]:
    """Return the run's groups by place.

    issued = sampling + waiting + ready + claimed + trained + measured + dropped.
    """
    by_state = dict(
        run.groups.filter(draw_index__isnull=False).values_list("state").annotate(n=Count("pk"))
    )
    # A group's experiences move together, so each group counts in one state.
    by_experience = dict(
        Experience.objects.usual()
        .filter(run=run)
        .values_list("state")
        .annotate(n=Count("group", distinct=True))
    )
    return {
        "issued": sum(by_state.values()),
        "sampling": by_state.get(Group.State.SAMPLING, 0),
        "waiting": sum(
            by_state.get(state, 0)
            for state in (Group.State.SCORING, Group.State.WAITING, Group.State.JUDGED)
        ),
        "ready": by_experience.get(Experience.State.READY, 0),
        "claimed": by_experience.get(Experience.State.CLAIMED, 0),
        "trained": by_experience.get(Experience.State.TRAINED, 0),
        "measured": by_state.get(Group.State.MEASURED, 0),
        "dropped": (
            by_state.get(Group.State.DROPPED, 0) + by_experience.get(Experience.State.DROPPED, 0)
        ),
    }
