"""Integrity checks of task sampling, each of which yields one sentence per violation."""

from collections.abc import Iterator

from django.db.models import Count, Exists, F, OuterRef, Q

from apps.rollouts.excluded_tasks import FailedGroup, failures, quarantined
from apps.rollouts.models import Group
from apps.runs.models import Run, TasksetShare, WeightVersion

SHOWN = 20


def runs_sample_from_their_tasksets() -> Iterator[str]:
    """Yield runs without tasksets, and groups whose task is in none of their run's tasksets."""
    wrong = Q(taskset=None, sets__lt=2) | Q(taskset__isnull=False, sets__gt=0)
    for run in Run.objects.annotate(sets=Count("shares")).filter(wrong):
        yield (
            f"{run}: has {'one taskset' if run.taskset_id else 'no taskset'}, but shares of "
            f"{run.sets}"
        )
    shares = TasksetShare.objects.filter(run=OuterRef("run"), taskset=OuterRef("task__taskset"))
    drawn = Group.objects.exclude(draw_index=None)
    of_several = drawn.filter(run__taskset=None).exclude(Exists(shares))
    of_one = drawn.exclude(run__taskset=None).exclude(task__taskset=F("run__taskset"))
    for group in [
        *of_one.select_related("task")[:SHOWN],
        *of_several.select_related("task")[:SHOWN],
    ]:
        yield f"{group}: sampled for {group.task}, which is in no taskset of its run"


def tasks_are_quarantined_for_their_failures() -> Iterator[str]:
    """Yield violations of quarantine.

    A failure must belong to a dropped group, and a run must have quarantined exactly the tasks that
    failed as often as it allows.
    """
    right = Q(group__state=Group.State.DROPPED, group__run=F("run"), group__task=F("task"))
    for failure in FailedGroup.objects.exclude(right).select_related("group")[:SHOWN]:
        yield (
            f"{failure}: does not match its group, which is {failure.group.state}, of run "
            f"{failure.group.run_id} and task {failure.group.task_id}"
        )
    for run in Run.objects.filter(
        Exists(FailedGroup.objects.filter(run=OuterRef("pk"))) | Q(left_out__failures__gt=0)
    ).distinct():
        allowed = run.settings.task_attempts
        counts = dict(failures(run).values_list("task").annotate(count=Count("pk")))
        for row in quarantined(run):
            if counts.get(row.task_id, 0) < allowed:
                yield (
                    f"{run}: quarantined {row.task} for {counts.get(row.task_id, 0)} failures of"
                    f" {allowed}"
                )
        excluded = set(run.left_out.values_list("task_id", flat=True))
        worn = {task for task, count in counts.items() if count >= allowed}
        if len(excluded) + 1 < run.tasks.count():  # the last task is never quarantined
            yield from (
                f"{run}: task {task} failed {counts[task]} times but is still sampled"
                for task in sorted(worn - excluded)
            )


def evaluations_ask_each_task_once() -> Iterator[str]:
    """Yield violations of evaluations.

    Draw n must be task n, sampled from the evaluated weights; nothing may be learned, and every
    task must have been asked at the end.
    """
    measured = Group.objects.filter(state=Group.State.MEASURED).select_related("run")
    for group in measured.filter(Q(run__is_evaluation=False) | Q(draw_index=None))[:SHOWN]:
        yield f"{group}: measured, but its run is not an evaluation"
    evaluations = Run.objects.filter(is_evaluation=True)
    yield from (
        f"{run}: is an evaluation, but at step {run.step}"
        for run in evaluations.filter(step__gt=0)[:SHOWN]
    )
    groups = Group.objects.filter(run__in=evaluations).select_related("run")
    wrong = (
        Q(state=Group.State.ADMITTED)
        | Q(experiences__isnull=False)
        | Q(draw_index=None)
        | ~Q(task__index=F("draw_index"))
    )
    for group in groups.filter(wrong).distinct()[:SHOWN]:
        yield (
            f"{group}: is {group.state} on task {group.task_id}, which does not fit an evaluation"
        )
    mismatched = WeightVersion.objects.filter(run__evaluates__isnull=False).exclude(
        fingerprint=F("run__evaluates__fingerprint")
    )
    yield from (
        f"{version}: differs from the weights that are evaluated" for version in mismatched[:SHOWN]
    )
    for run in evaluations.filter(state=Run.State.COMPLETED).select_related("taskset"):
        if run.groups_opened != run.tasks_asked:
            yield f"{run}: completed, but with {run.groups_opened} of {run.tasks_asked} tasks"
