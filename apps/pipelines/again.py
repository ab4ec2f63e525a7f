"""Groups that an operator failed at, again and again: dropped with the reason, and refined once more when that is mended."""

from django.db import transaction
from django.db.models import F

from apps.accounts.locking import lock_ids, unit_of_work
from apps.accounts.models import AuditEntry, User
from apps.pipelines.models import CutRollout
from apps.rollouts.left_out import unfail
from apps.rollouts.models import GAVE_UP, Group
from apps.runs.models import NotPossible, Run
from apps.streaming import bells

AT_ONCE = 1_000


def given_up(run: Run):
    """Groups of the run that were judged, and that the refiner failed at until their attempts were used up."""
    return run.groups.filter(GAVE_UP)


@unit_of_work
def refine_again(run: Run, by: User | None = None) -> int:
    """Hand those groups to the refiner once more; returns how many. Raises NotPossible for a run that has ended.

    They take the room again that they gave up, so that nothing is counted twice, and count against their tasks no more; what is too
    old by now will be dropped as stale.
    """
    found = lock_ids(given_up(run).order_by("pk")[:AT_ONCE])
    locked = Run.locked(run.pk)
    if locked.state in Run.ENDED:
        raise NotPossible(f"run {locked.slug} is {locked.get_state_display()}; nothing of it is refined any more")
    CutRollout.objects.filter(rollout__group__in=found).delete()
    unfail(locked, found, by)
    Group.objects.filter(pk__in=found).update(
        state=Group.State.JUDGED, reason="", closed_at=None, attempts=0, lease_owner="", lease_until=None, fence=F("fence") + 1
    )
    Run.objects.filter(pk=run.pk).update(groups_dropped=F("groups_dropped") - len(found))
    if found:
        AuditEntry.record("groups refined again", locked.address, by, locked.project, groups=len(found))
        transaction.on_commit(lambda: bells.ring("refine"), robust=True)
    return len(found)
