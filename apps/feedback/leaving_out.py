"""Exclude chosen groups from training, unless a step has taken them."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Q

from apps.accounts.locking import lock_ids, unit_of_work
from apps.accounts.models import AuditEntry, User
from apps.buffer.models import Experience, Offspring
from apps.feedback.models import Slot
from apps.rollouts.models import Group
from apps.runs.models import NotPossible, Run
from apps.streaming import worker_notifications

LISTED = 200  # groups that the audit lists; the rest are counted


@dataclass(frozen=True)
class LeftOut:
    """The numbers of groups `dropped`, those kept `in_steps`, and those `dropped_before`."""

    dropped: int
    in_steps: int
    dropped_before: int


@unit_of_work
def drop_groups(run: Run, groups: Collection[int], by: User, reason: str) -> LeftOut:
    """Drop those of these groups that wait or are ready, as whole groups.

    A group's mean is its baseline, so a part cannot be dropped. Groups in a planned or committed
    step stay. Expert rows and offspring made from dropped rollouts are dropped too. Raises
    NotPossible, and ValueError without a reason.
    """
    if not reason.strip():
        raise ValueError("Enter a reason.")
    if run.state in Run.ENDED:
        raise NotPossible(f"run {run.slug} is {run.get_state_display()}; it no longer trains")
    why = f"dropped by {by}: {' '.join(reason.split())}"[:200]
    chosen = Group.objects.filter(run=run, pk__in=groups, draw_index__isnull=False)
    # While the run's row is locked no step is planned: ready groups stay ready until they are
    # dropped.
    Slot.objects.lock_open(lock_ids(chosen))
    dropped = set(chosen.drop_open(why))
    locked = Run.locked(run.pk)
    usual = Experience.objects.usual().filter(run=locked, group__in=chosen)
    groups_in_steps = _groups(usual, Experience.State.CLAIMED, Experience.State.TRAINED)
    ready = _groups(usual, Experience.State.READY) - groups_in_steps
    Experience.objects.leave_out(locked, ready, why)
    dropped |= ready
    if not dropped:
        raise NotPossible("none of these groups is open or ready")
    leave_out_made(locked, dropped, why)
    Slot.objects.close(sorted(dropped))
    outcome = LeftOut(
        len(dropped), len(groups_in_steps), chosen.count() - len(dropped) - len(groups_in_steps)
    )
    locked.topic.record(
        "groups_dropped", groups=outcome.dropped, reason=reason.strip()[:200], by=str(by)
    )
    AuditEntry.record(
        "groups dropped",
        f"run {run.project.slug}/{run.slug}",
        by,
        run.project,
        reason=reason.strip()[:500],
        groups=sorted(dropped)[:LISTED],
        count=outcome.dropped,
        taken=outcome.in_steps,
    )
    transaction.on_commit(lambda: worker_notifications.notify_workers("explore"), robust=True)
    return outcome


def _groups(experiences, *states: str) -> set[int]:
    return set(experiences.filter(state__in=states).values_list("group_id", flat=True))


def leave_out_made(run: Run, groups: Iterable[int], why: str) -> None:
    """Exclude expert rows of these groups, and of their offspring, from later steps.

    The caller holds the lock on the run's row.
    """
    groups = set(groups)
    imitated = Q(group__in=groups) | Q(rollout__descent__of__group__in=groups)
    expert_rows = Experience.objects.expert().filter(
        imitated, run=run, state=Experience.State.READY
    )
    Experience.objects.filter(pk__in=expert_rows.values("pk")).update(
        state=Experience.State.DROPPED, reason=why[:200]
    )
    Offspring.objects.filter(of__group__in=groups).refuse(why)
