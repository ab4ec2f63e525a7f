"""The refiner's verdict on judged groups: experiences for the buffer, or dropped with a reason."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import structlog
from django.db.models import prefetch_related_objects
from django.db.models.functions import Now

from apps.accounts.locking import lock_ids, unit_of_work
from apps.buffer.models import Experience
from apps.pipelines.asking import answered
from apps.pipelines.deciding import Case, Decision, decide
from apps.pipelines.failing import is_failed
from apps.pipelines.models import record
from apps.pipelines.synthesizing import put_made
from apps.rewards.combining import success
from apps.rewards.judgements import judgements_of
from apps.rollouts.measuring import measure
from apps.rollouts.models import Group, Rollout
from apps.rollouts.records import TaskRecord, Tried
from apps.rollouts.turns import spoken_by_policy
from apps.runs.config import RunConfig
from apps.runs.models import Run, StaleFence
from apps.runs.selection import Bots
from apps.streaming import bells

log = structlog.get_logger(__name__)


def refine(groups: Sequence[Group]) -> int:
    """Admit or drop these claimed groups; returns how many were admitted. Those of evaluations are closed as they are.

    What is admitted of a run is written in one transaction, each other group in its own. A group at which an operator
    fails is free for another attempt, and dropped when its attempts are used up.
    """
    prefetch_related_objects(groups, "run")
    measure([group for group in groups if group.run.is_evaluation])
    by_run: dict[Run, list[Case]] = defaultdict(list)
    for case in cases_of([group for group in groups if not group.run.is_evaluation]):
        by_run[case.group.run].append(case)
    admitted = sum(_refine_run(run.settings, cases) for run, cases in by_run.items())
    if admitted:
        bells.ring("train")
    return admitted


def _refine_run(plan: RunConfig, cases: Sequence[Case]) -> int:
    decisions = decide(plan, answered(plan.pipeline, cases))
    for decision in decisions:
        if not decision.is_admitted:
            _close_held(plan, decision)
    return _admit(plan, [decision for decision in decisions if decision.is_admitted])


def cases_of(groups: Sequence[Group]) -> list[Case]:
    """The groups with their finished rollouts and what was said of them; four statements for all."""
    prefetch_related_objects(groups, "task", "run")
    rollouts = _finished(groups)
    judgements = judgements_of([rollout.pk for rows in rollouts.values() for rollout in rows])
    return [Case(group, rollouts[group.pk], judgements, group.run.published_version) for group in groups]


def _finished(groups: Sequence[Group]) -> dict[int, list[Rollout]]:
    """What the policy can learn from; an answer that a person typed from its first word to its last is a lesson, no sample."""
    found = defaultdict(list)
    finished = Rollout.objects.filter(group__in=groups, state=Rollout.State.FINISHED, completion_tokens__gt=0)
    for rollout in finished.exclude(origin=Rollout.Origin.SYNTHETIC).order_by("sample_index"):
        if spoken_by_policy(rollout):
            found[rollout.group_id].append(rollout)
    return found


def _close_held(plan: RunConfig, decision: Decision) -> None:
    """A group that is no longer ours is left to whoever holds it, and the others go on."""
    try:
        _close(plan, decision)
    except StaleFence as taken:
        log.warning("group_taken_over", group=decision.case.group.pk, reason=str(taken))


@unit_of_work
def _close(plan: RunConfig, decision: Decision) -> None:
    group = decision.case.group
    group.state = Group.State.JUDGED  # as it was claimed: an earlier attempt has changed it
    if decision.failed:
        log.error("operator_failed", run=group.run, group=group.pk, reason=decision.failed)
        group.fail(decision.failed)
        return
    if not lock_ids(group.held().filter(state=Group.State.JUDGED)):
        raise StaleFence(f"group {group.pk} is closed, or another refiner has it")
    _record_tasks(plan, [decision])
    record(group, decision.passes, put_made(decision))
    group.drop(decision.dropped, failed=is_failed(plan, decision))


@unit_of_work
def _admit(plan: RunConfig, decisions: Sequence[Decision]) -> int:
    """Those that are still ours, all at once; returns how many."""
    if not decisions:
        return 0
    groups = [decision.case.group for decision in decisions]
    for group in groups:
        group.state = Group.State.JUDGED  # as it was claimed: an earlier attempt has changed it
    held = {group.pk for group in Group.move_held(groups, Group.State.ADMITTED, closed_at=Now())}
    if lost := [group.pk for group in groups if group.pk not in held]:
        log.warning("groups_taken_over", groups=lost)
    # In the order of their tasks, and the run's counts last: so that no two refiners wait for each other.
    ours = sorted((one for one in decisions if one.case.group.pk in held), key=_by_task)
    Experience.objects.put(experience for decision in ours for experience in _experiences(decision))
    _record_tasks(plan, ours)
    made = [put_made(decision) for decision in ours]
    for decision, rows in zip(ours, made, strict=True):
        record(decision.case.group, decision.passes, rows)
    return len(ours)


def _by_task(decision: Decision) -> tuple[int, int]:
    return decision.case.group.task_id, decision.case.group.draw_index


def _record_tasks(plan: RunConfig, decisions: Sequence[Decision]) -> None:
    """What the groups tell of their tasks, also where nothing can be learned from it: all right or all wrong tells most."""
    if not plan.samples or plan.serve:
        return
    told = [
        Tried(group.task_id, group.draw_index, [success(reward, plan, group.task.kind) for reward in one.rewards])
        for one in decisions
        if one.rewards
        for group in [one.case.group]
    ]
    if told:
        beliefs = plan.selection if isinstance(plan.selection, Bots) else Bots()
        TaskRecord.add(decisions[0].case.group.run_id, told, plan.groups_per_step, beliefs)


def _experiences(decision: Decision) -> Iterator[Experience]:
    group = decision.case.group
    versions = {rollout.pk: rollout.first_version for rollout in decision.case.rollouts}
    for sample in decision.learned:
        yield Experience(
            run_id=group.run_id, group=group, rollout_id=sample.rollout, reward=sample.reward, advantage=sample.advantage,
            weight_version=versions[sample.rollout],
        )  # fmt: skip
