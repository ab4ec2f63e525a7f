"""What must be true of draws whatever happens, each as a question whose right answer is "none"."""

from collections.abc import Iterator

from django.db.models import Count, Exists, F, OuterRef, Q

from apps.rollouts.models import Group
from apps.runs.models import Run, TasksetShare

SHOWN = 20


def runs_draw_from_their_tasksets() -> Iterator[str]:
    """A run has one taskset, or shares of several; every group that it drew is of a task of theirs."""
    wrong = Q(taskset=None, sets__lt=2) | Q(taskset__isnull=False, sets__gt=0)
    for run in Run.objects.annotate(sets=Count("shares")).filter(wrong):
        yield f"{run}: names {'one taskset' if run.taskset_id else 'none'}, and has shares of {run.sets}"
    own = TasksetShare.objects.filter(run=OuterRef("run"), taskset=OuterRef("task__taskset"))
    drawn = Group.objects.exclude(draw_index=None)
    of_several = drawn.filter(run__taskset=None).exclude(Exists(own))
    of_one = drawn.exclude(run__taskset=None).exclude(task__taskset=F("run__taskset"))
    for group in [*of_one.select_related("task")[:SHOWN], *of_several.select_related("task")[:SHOWN]]:
        yield f"{group}: drawn for {group.task}, which is of no taskset of its run"
