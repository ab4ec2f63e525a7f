"""What must be true of draws whatever happens, each as a question whose right answer is "none"."""

from collections.abc import Iterator

from django.db.models import Count, Exists, F, OuterRef, Q

from apps.rollouts.left_out import FailedGroup, failures, quarantined
from apps.rollouts.models import Group
from apps.runs.models import Run, TasksetShare, WeightVersion

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


def tasks_are_quarantined_for_their_failures() -> Iterator[str]:
    """A failure is of a group that was dropped; a run quarantined the tasks that failed as often as it allows, and no others."""
    right = Q(group__state=Group.State.DROPPED, group__run=F("run"), group__task=F("task"))
    for one in FailedGroup.objects.exclude(right).select_related("group")[:SHOWN]:
        yield f"{one}: the group is {one.group.state}, of run {one.group.run_id} and task {one.group.task_id}"
    for run in Run.objects.filter(Exists(FailedGroup.objects.filter(run=OuterRef("pk"))) | Q(left_out__failures__gt=0)).distinct():
        allowed = run.settings.task_attempts
        counts = dict(failures(run).values_list("task").annotate(count=Count("pk")))
        for row in quarantined(run):
            if counts.get(row.task_id, 0) < allowed:
                yield f"{run}: quarantined {row.task} for {counts.get(row.task_id, 0)} failures of {allowed}"
        gone = set(run.left_out.values_list("task_id", flat=True))
        worn = {task for task, count in counts.items() if count >= allowed}
        if len(gone) + 1 < run.tasks.count():  # the last task is never quarantined
            yield from (f"{run}: task {task} failed {counts[task]} times and is drawn still" for task in sorted(worn - gone))


def evaluations_ask_each_task_once() -> Iterator[str]:
    """The nth draw is the nth task, asked of the weights that are evaluated; nothing is learned, and all is asked at the end."""
    measured = Group.objects.filter(state=Group.State.MEASURED).select_related("run")
    for group in measured.filter(Q(run__is_evaluation=False) | Q(draw_index=None))[:SHOWN]:
        yield f"{group}: measured, and its run is no evaluation"
    evaluations = Run.objects.filter(is_evaluation=True)
    yield from (f"{run}: an evaluation at step {run.step}" for run in evaluations.filter(step__gt=0)[:SHOWN])
    own = Group.objects.filter(run__in=evaluations).select_related("run")
    wrong = Q(state=Group.State.ADMITTED) | Q(experiences__isnull=False) | Q(draw_index=None) | ~Q(task__index=F("draw_index"))
    for group in own.filter(wrong).distinct()[:SHOWN]:
        yield f"{group}: {group.state} on task {group.task_id}, which an evaluation did not ask there or would not learn of"
    other = WeightVersion.objects.filter(run__evaluates__isnull=False).exclude(fingerprint=F("run__evaluates__fingerprint"))
    yield from (f"{version}: other weights than those that are evaluated" for version in other[:SHOWN])
    for run in evaluations.filter(state=Run.State.COMPLETED).select_related("taskset"):
        if run.groups_opened != run.tasks_asked:
            yield f"{run}: completed with {run.groups_opened} of {run.tasks_asked} tasks"
