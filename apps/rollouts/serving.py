"""Groups opened by API callers: one rollout, for a task that the caller brings.

The group counts within the run's staleness bound, or is only answered and never learned from.
"""

from dataclasses import replace
from functools import partial

from django.db import transaction
from django.db.models import F

from apps.accounts.locking import unit_of_work
from apps.rollouts.models import Group, Rollout
from apps.runs.admission import groups_allowed
from apps.runs.models import Run
from apps.streaming import worker_notifications
from apps.tasksets.growing import add_task
from apps.tasksets.rows import TaskRow

FIRST_FENCE = 1  # the fence of the first claim: a group is opened without one


class NoRoom(Exception):
    """An error raised when the run takes no further question now; the message says why."""


@unit_of_work
def open_for_caller(run: Run, row: TaskRow) -> Rollout:
    """Open a group for the caller's task, free for any explorer of the run; return its rollout.

    The run's row is locked while its counter moves, as when an explorer opens groups. Raises
    NoRoom.
    """
    locked = Run.locked(run.pk)
    if not locked.is_live:
        raise NoRoom(
            f"Run {locked.slug} is {locked.get_state_display()} and accepts no new requests."
        )
    serve = locked.settings.serve
    assert serve is not None and locked.taskset_id is not None  # only such runs take questions
    has_room = bool(room(locked))
    if not has_room and serve.over_bound == "refuse":
        raise NoRoom(
            "The run has opened all groups that max_staleness allows; its trainer must make a step"
            " first."
        )
    Run.objects.filter(pk=run.pk).update(groups_opened=F("groups_opened") + 1)
    group = Group.objects.create(
        run=locked,
        draw_index=locked.groups_opened,
        task=add_task(locked.taskset_id, row),
        size=1,
        opened_version=locked.published_version,
        answer_only=not has_room,
    )
    transaction.on_commit(partial(worker_notifications.notify_workers, "explore"), robust=True)
    return Rollout.objects.create(group=group, run=locked, sample_index=0)


def room(run: Run) -> int:
    """Return how many groups callers may open within the bound.

    Groups that are only answered are not counted.
    """
    beside = run.groups.filter(answer_only=True, state__in=Group.OPEN).count()
    return groups_allowed(replace(run.pace, groups_dropped=run.groups_dropped + beside))


def leave_unheard(groups: list[Group]) -> list[Group]:
    """Drop claimed groups that an earlier attempt already served; return the others.

    The caller who waited for an earlier attempt has already received an error.
    """
    for group in groups:
        if group.fence > FIRST_FENCE:
            group.drop("its explorer stopped responding, and the caller got an error")
    return [group for group in groups if group.fence == FIRST_FENCE]
