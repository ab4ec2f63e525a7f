"""A group that a caller opens: one rollout, whose task is what the caller asks, within the run's bound or answered only."""

from dataclasses import replace
from functools import partial

from django.db import transaction
from django.db.models import F

from apps.accounts.locking import unit_of_work
from apps.rollouts.models import Group, Rollout
from apps.runs.admission import groups_allowed
from apps.runs.models import Run
from apps.streaming import bells
from apps.tasksets.growing import add
from apps.tasksets.rows import TaskRow

FIRST_FENCE = 1  # under which the explorer that answers it takes it: it is opened with none


class NoRoom(Exception):
    """The run takes no further question now; the message says why."""


@unit_of_work
def open_for_caller(run: Run, asked: TaskRow) -> Rollout:
    """The rollout that will answer this, in a group that any explorer of the run may take. Raises NoRoom.

    The run's row is locked while its counter moves, as when an explorer opens groups.
    """
    locked = Run.locked(run.pk)
    if not locked.is_live:
        raise NoRoom(f"Run {locked.slug} is {locked.get_state_display()}: it answers nothing new.")
    has_room = bool(room(locked))
    if not has_room and locked.settings.serve.over_bound == "refuse":
        raise NoRoom("The run has opened all that its staleness bound allows; its trainer has to learn first.")
    Run.objects.filter(pk=run.pk).update(groups_opened=F("groups_opened") + 1)
    group = Group.objects.create(
        run=locked, draw_index=locked.groups_opened, task=add(locked.taskset_id, asked), size=1,
        opened_version=locked.published_version, answer_only=not has_room,
    )  # fmt: skip
    transaction.on_commit(partial(bells.ring, "explore"), robust=True)
    return Rollout.objects.create(group=group, run=locked, sample_index=0)


def room(run: Run) -> int:
    """Groups that callers may open within the bound. Those that are answered only take none of it."""
    beside = run.groups.filter(answer_only=True, state__in=Group.OPEN).count()
    return groups_allowed(replace(run.pace, groups_dropped=run.groups_dropped + beside))


def leave_unheard(groups: list[Group]) -> list[Group]:
    """Of these claimed groups those that nobody has begun to answer: who waited for another attempt's answer has been sent away."""
    for group in groups:
        if group.fence > FIRST_FENCE:
            group.drop("its explorer went away, and its caller was told so")
    return [group for group in groups if group.fence == FIRST_FENCE]
