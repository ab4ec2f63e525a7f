"""The refiner's verdict on judged groups: experiences for the buffer, or dropped with a reason."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import structlog
from django.db.models import QuerySet, prefetch_related_objects
from django.db.models.functions import Now

from apps.accounts.compiled_queries import EqualsAny, compiled_query
from apps.accounts.durability import commit_without_waiting
from apps.accounts.locking import lock_ids, unit_of_work
from apps.buffer.models import Experience, NewExperience
from apps.pipelines.asking import answer_operators
from apps.pipelines.deciding import Case, Decision, decide_groups
from apps.pipelines.failed_groups import is_failed
from apps.pipelines.models import record
from apps.pipelines.synthesizing import put_made
from apps.rewards.combining import full_reward, success
from apps.rewards.judgements import load_judgements
from apps.rollouts.evaluation_groups import close_evaluation_groups
from apps.rollouts.models import Group, Rollout
from apps.rollouts.task_stats import GroupResult, TaskRecord
from apps.rollouts.turns import spoken_by_policy
from apps.runs.config import RunConfig
from apps.runs.models import Run, StaleFence
from apps.runs.selection import Bots
from apps.streaming import worker_notifications
from apps.tasksets.models import Task

log = structlog.get_logger(__name__)


def refine(groups: Sequence[Group]) -> int:
    """Admit or drop these claimed groups; return how many were admitted.

    Groups of evaluations are closed as they are. Admitted groups of a run are written in one
    transaction, each other group in its own. A group at which an operator fails is freed for
    another attempt, and dropped when its attempts are used up.
    """
    prefetch_related_objects(groups, "run")
    if evaluated := [group for group in groups if group.run.is_evaluation]:
        close_evaluation_groups(evaluated)
    by_run: dict[Run, list[Case]] = defaultdict(list)
    for case in load_cases([group for group in groups if not group.run.is_evaluation]):
        by_run[case.group.run].append(case)
    admitted = sum(_refine_run(run.settings, cases) for run, cases in by_run.items())
    if admitted:
        worker_notifications.notify_workers("train")
    return admitted


def _refine_run(plan: RunConfig, cases: Sequence[Case]) -> int:
    decisions = decide_groups(plan, answer_operators(plan.pipeline, cases))
    for decision in decisions:
        if not decision.is_admitted:
            _close_held(plan, decision)
    return _admit(plan, [decision for decision in decisions if decision.is_admitted])


def load_cases(groups: Sequence[Group]) -> list[Case]:
    """Return the groups with their finished rollouts and judgements; four statements for all."""
    tasks = {task.pk: task for task in _tasks([group.task_id for group in groups])}
    for group in groups:
        group.task = tasks[group.task_id]
    prefetch_related_objects(groups, "run")
    rollouts = _finished(groups)
    judgements = load_judgements([rollout.pk for rows in rollouts.values() for rollout in rows])
    return [
        Case(group, rollouts[group.pk], judgements, group.run.published_version) for group in groups
    ]


def _finished(groups: Sequence[Group]) -> dict[int, list[Rollout]]:
    """Return the finished rollouts that the policy can learn from.

    An answer that a person typed entirely is a lesson, not a sample.
    """
    finished = defaultdict(list)
    for rollout in _with_replies([group.pk for group in groups]):
        if spoken_by_policy(rollout):
            finished[rollout.group_id].append(rollout)
    return finished


@compiled_query
def _tasks(pks: list[int]) -> QuerySet[Task]:
    return Task.objects.filter(EqualsAny("pk", pks))


@compiled_query
def _with_replies(groups: list[int]) -> QuerySet[Rollout]:
    finished = Rollout.objects.filter(
        EqualsAny("group", groups), state=Rollout.State.FINISHED, completion_tokens__gt=0
    )
    return finished.exclude(origin=Rollout.Origin.SYNTHETIC).order_by("sample_index")


def _close_held(plan: RunConfig, decision: Decision) -> None:
    """Drop or fail one group; skip it when it is no longer ours."""
    try:
        _close(plan, decision)
    except StaleFence as taken:
        log.warning("group_claim_lost", group=decision.case.group.pk, reason=str(taken))


@unit_of_work
def _close(plan: RunConfig, decision: Decision) -> None:
    group = decision.case.group
    group.state = Group.State.JUDGED  # as when claimed: an earlier attempt has changed it
    if decision.failed:
        log.error("operator_failed", run=group.run, group=group.pk, reason=decision.failed)
        group.fail(decision.failed)
        return
    if not lock_ids(group.writable().filter(state=Group.State.JUDGED)):
        raise StaleFence(f"group {group.pk} is closed or is being processed by another refiner")
    _record_tasks(plan, [decision])
    record(group, decision.passes, put_made(decision))
    group.drop(decision.dropped, failed=is_failed(plan, decision))


@unit_of_work
def _admit(plan: RunConfig, decisions: Sequence[Decision]) -> int:
    """Admit the groups that are still ours, all at once; return how many."""
    if not decisions:
        return 0
    groups = [decision.case.group for decision in decisions]
    for group in groups:
        group.state = Group.State.JUDGED  # as it was claimed: an earlier attempt has changed it
    commit_without_waiting()  # lost decisions are made again, from the same rewards
    admitted_ids = {
        group.pk for group in Group.move_held(groups, Group.State.ADMITTED, closed_at=Now())
    }
    if lost := [group.pk for group in groups if group.pk not in admitted_ids]:
        log.warning("group_claims_lost", groups=lost)
    # In task order, with the run's counts last, so that two refiners do not deadlock.
    ours = sorted(
        (decision for decision in decisions if decision.case.group.pk in admitted_ids), key=_by_task
    )
    Experience.objects.put([row for decision in ours for row in _experiences(decision)])
    _record_tasks(plan, ours)
    new_rows = [put_made(decision) for decision in ours]
    for decision, rows in zip(ours, new_rows, strict=True):
        record(decision.case.group, decision.passes, rows)
    return len(ours)


def _by_task(decision: Decision) -> tuple[int, int]:
    return decision.case.group.task_id, _draw(decision.case.group)


def _draw(group: Group) -> int:
    """Return the group's number in its run, which every group with a size has."""
    assert group.draw_index is not None
    return group.draw_index


def _record_tasks(plan: RunConfig, decisions: Sequence[Decision]) -> None:
    """Record the results for the groups' tasks, even where nothing can be learned from them.

    A group that is all right or all wrong is the most informative about its task.
    """
    if not plan.samples or plan.serve:
        return
    results = []
    for decision in decisions:
        if decision.rewards:
            group = decision.case.group
            full = full_reward(plan, group.task.kind)
            successes = [success(reward, full) for reward in decision.rewards]
            results.append(GroupResult(group.task_id, _draw(group), successes))
    if results:
        beliefs = plan.selection if isinstance(plan.selection, Bots) else Bots()
        TaskRecord.add(decisions[0].case.group.run_id, results, plan.groups_per_step, beliefs)


def _experiences(decision: Decision) -> Iterator[NewExperience]:
    group = decision.case.group
    versions = {rollout.pk: rollout.first_version or 0 for rollout in decision.case.rollouts}
    for sample in decision.learned:
        yield NewExperience(
            group.run_id,
            group.pk,
            sample.rollout,
            Experience.Kind.USUAL,
            sample.reward,
            sample.known_advantage,
            versions[sample.rollout],
        )
