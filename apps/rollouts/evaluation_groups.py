"""Completion of evaluations: close their judged groups, and complete a run after its last group."""

from collections.abc import Sequence
from contextlib import suppress

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from apps.accounts.compiled_queries import compiled_query
from apps.rollouts.models import Group
from apps.runs.models import NotPossible, Run


@transaction.atomic
def close_evaluation_groups(groups: Sequence[Group]) -> list[Group]:
    """Close these claimed, judged groups of evaluations, with or without rewards.

    Returns the groups that are still ours.
    """
    return Group.move_held(groups, Group.State.MEASURED, closed_at=Now())


def complete_measured() -> int:
    """Complete the evaluations whose groups are all closed, and return how many.

    Any number of processes may call it at once.
    """
    completed = 0
    for run in _without_open_groups():
        if run.groups_opened >= run.tasks_asked:
            with suppress(NotPossible):  # another process was first, or it was stopped
                run.complete()
                completed += 1
    return completed


@compiled_query
def _without_open_groups() -> QuerySet[Run]:
    open_groups = Group.objects.filter(run=OuterRef("pk"), state__in=Group.OPEN)
    evaluations = Run.objects.running().filter(is_evaluation=True, groups_opened__gt=0)
    return evaluations.filter(~Exists(open_groups)).select_related("taskset", "topic")
