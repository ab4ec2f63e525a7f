"""Groups dropped because an operator failed at them repeatedly, and their second refinement."""

from django.db import transaction
from django.db.models import F

from apps.accounts.locking import lock_ids, unit_of_work
from apps.accounts.models import AuditEntry, User
from apps.pipelines.models import CutRollout
from apps.rollouts.excluded_tasks import unfail
from apps.rollouts.models import GAVE_UP, Group
from apps.runs.models import NotPossible, Run
from apps.streaming import worker_notifications

AT_ONCE = 1_000


def given_up(run: Run):
    """Return the run's judged groups that were dropped when the refiner's attempts were used up."""
    return run.groups.filter(GAVE_UP)


@unit_of_work
def refine_again(run: Run, by: User | None = None) -> int:
    """Reopen these groups for the refiner, and return how many.

    They take back the room that they gave up, so that nothing is counted twice, and their failures
    no longer count against their tasks; groups that are too old by now will be dropped as stale.
    Raises NotPossible for a run that has ended.
    """
    group_ids = lock_ids(given_up(run).order_by("pk")[:AT_ONCE])
    locked = Run.locked(run.pk)
    if locked.state in Run.ENDED:
        raise NotPossible(
            f"run {locked.slug} is {locked.get_state_display()}; its groups can no longer be "
            "refined"
        )
    CutRollout.objects.filter(rollout__group__in=group_ids).delete()
    unfail(locked, group_ids, by)
    Group.objects.filter(pk__in=group_ids).update(
        state=Group.State.JUDGED,
        reason="",
        closed_at=None,
        attempts=0,
        fence=F("fence") + 1,
        **Group.FREED,
    )
    Run.objects.filter(pk=run.pk).update(groups_dropped=F("groups_dropped") - len(group_ids))
    if group_ids:
        AuditEntry.record(
            "groups refined again", locked.address, by, locked.project, groups=len(group_ids)
        )
        transaction.on_commit(lambda: worker_notifications.notify_workers("refine"), robust=True)
    return len(group_ids)
