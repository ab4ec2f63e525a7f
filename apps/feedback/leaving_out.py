"""Groups that a person picked left out of training, while no update has taken them."""

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
from apps.streaming import bells

LISTED = 200  # groups that the audit names; the rest are counted


@dataclass(frozen=True)
class LeftOut:
    """`dropped`: groups; `taken`: those that updates took, or are planned with, and that stay; `others`: dropped before."""

    dropped: int
    taken: int
    others: int


@unit_of_work
def drop(run: Run, groups: Collection[int], by: User, reason: str) -> LeftOut:
    """Drop those of these groups that wait for something or are ready; a group falls as a whole, for its mean is its baseline.

    What an update was planned with, or has trained on, stays. Expert rows and rollouts that were made of what is dropped go
    with it. Raises NotPossible, and ValueError without a reason.
    """
    if not reason.strip():
        raise ValueError("Say in a few words why they are dropped.")
    if run.state in Run.ENDED:
        raise NotPossible(f"run {run.slug} is {run.get_state_display()}; it trains on nothing any more")
    why = f"dropped by {by}: {' '.join(reason.split())}"[:200]
    chosen = Group.objects.filter(run=run, pk__in=groups, draw_index__isnull=False)
    # While the run's row is locked no update is planned: what is ready stays ready until it is dropped.
    Slot.objects.lock_open(lock_ids(chosen))
    dropped = set(chosen.drop_open(why))
    locked = Run.locked(run.pk)
    usual = Experience.objects.usual().filter(run=locked, group__in=chosen)
    taken = _groups(usual, Experience.State.CLAIMED, Experience.State.TRAINED)
    ready = _groups(usual, Experience.State.READY) - taken
    Experience.objects.leave_out(locked, ready, why)
    dropped |= ready
    if not dropped:
        raise NotPossible("none of these groups is open or ready any more")
    leave_out_made(locked, dropped, why)
    Slot.objects.close(sorted(dropped))
    found = LeftOut(len(dropped), len(taken), chosen.count() - len(dropped) - len(taken))
    locked.topic.record("groups_dropped", groups=found.dropped, reason=reason.strip()[:200], by=str(by))
    AuditEntry.record(
        "groups dropped", f"run {run.project.slug}/{run.slug}", by, run.project,
        reason=reason.strip()[:500], groups=sorted(dropped)[:LISTED], count=found.dropped, taken=found.taken,
    )  # fmt: skip
    transaction.on_commit(lambda: bells.ring("explore"), robust=True)
    return found


def _groups(experiences, *states: str) -> set[int]:
    return set(experiences.filter(state__in=states).values_list("group_id", flat=True))


def leave_out_made(run: Run, groups: Iterable[int], why: str) -> None:
    """No later update takes expert rows of these groups or of what was made of them. The caller holds the run's row."""
    groups = set(groups)
    imitated = Q(group__in=groups) | Q(rollout__descent__of__group__in=groups)
    own = Experience.objects.expert().filter(imitated, run=run, state=Experience.State.READY)
    Experience.objects.filter(pk__in=own.values("pk")).update(state=Experience.State.DROPPED, reason=why[:200])
    Offspring.objects.filter(of__group__in=groups).refuse(why)
