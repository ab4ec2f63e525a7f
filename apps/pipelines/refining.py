"""The refiner's verdict on judged groups: experiences for the buffer, or dropped with a reason."""

from collections import defaultdict
from collections.abc import Sequence

import structlog
from django.db import transaction
from django.db.models import prefetch_related_objects
from django.db.models.functions import Now

from apps.buffer.models import Experience
from apps.pipelines.asking import answered
from apps.pipelines.deciding import Case, Decision, decide
from apps.pipelines.models import record
from apps.rewards.combining import success
from apps.rewards.judgements import judgements_of
from apps.rollouts.models import Group, Rollout
from apps.rollouts.records import TaskRecord
from apps.rollouts.turns import spoken_by_policy
from apps.runs.config import RunConfig
from apps.runs.models import Run, StaleFence
from apps.runs.selection import Bots
from apps.streaming import bells

log = structlog.get_logger(__name__)


def refine(groups: Sequence[Group]) -> int:
    """Admit or drop these claimed groups, each in its own transaction; returns how many were admitted.

    A group at which an operator fails is free for another attempt, and dropped when its attempts are used up.
    """
    by_run: dict[Run, list[Case]] = defaultdict(list)
    for case in cases_of(groups):
        by_run[case.group.run].append(case)
    admitted = sum(_refine_run(run.settings, cases) for run, cases in by_run.items())
    if admitted:
        bells.ring("train")
    return admitted


def _refine_run(plan: RunConfig, cases: Sequence[Case]) -> int:
    return sum(_write_held(plan, decision) for decision in decide(plan, answered(plan.pipeline, cases)))


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


def _write_held(plan: RunConfig, decision: Decision) -> bool:
    """A group that is no longer ours is left to whoever holds it, and the others go on."""
    try:
        return _write(plan, decision)
    except StaleFence as taken:
        log.warning("group_taken_over", group=decision.case.group.pk, reason=str(taken))
        return False


@transaction.atomic
def _write(plan: RunConfig, decision: Decision) -> bool:
    group = decision.case.group
    if decision.failed:
        log.error("operator_failed", run=group.run.slug, group=group.pk, reason=decision.failed)
        group.fail(decision.failed)
        return False
    if decision.dropped:
        group.drop(decision.dropped)
    else:
        group.move(Group.State.ADMITTED, closed_at=Now())
        _put(decision)
    _record_task(plan, decision)
    record(group, decision.passes)
    return not decision.dropped


def _record_task(plan: RunConfig, decision: Decision) -> None:
    """What the group tells of its task, also where nothing can be learned from it: all right or all wrong tells most."""
    if decision.rewards and plan.samples and not plan.serve:
        group = decision.case.group
        successes = [success(reward, plan, group.task.domain) for reward in decision.rewards]
        beliefs = plan.selection if isinstance(plan.selection, Bots) else Bots()
        TaskRecord.add(group.run_id, group.task_id, group.draw_index, successes, plan.groups_per_step, beliefs)


def _put(decision: Decision) -> None:
    group = decision.case.group
    versions = {rollout.pk: rollout.first_version for rollout in decision.case.rollouts}
    Experience.objects.put(
        Experience(
            run_id=group.run_id, group=group, rollout_id=sample.rollout, reward=sample.reward, advantage=sample.advantage,
            weight_version=versions[sample.rollout],
        )
        for sample in decision.learned
    )  # fmt: skip
