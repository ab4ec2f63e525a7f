"""The refiner's verdict on a judged group: experiences for the buffer, or dropped with a reason."""

import math
from collections import defaultdict
from collections.abc import Sequence

import structlog
from django.db import transaction
from django.db.models import prefetch_related_objects
from django.db.models.functions import Now

from apps.buffer.models import Experience
from apps.pipelines.crediting import Judged, of_group
from apps.rewards.combining import Judgement, combined, full_reward, success
from apps.rewards.judgements import judgements_of
from apps.rewards.length import length_rewards
from apps.rollouts.models import Group, Rollout
from apps.rollouts.records import TaskRecord
from apps.rollouts.turns import spoken_by_policy, stretches
from apps.runs.config import RunConfig
from apps.runs.models import StaleFence
from apps.runs.selection import Bots
from apps.streaming import bells

log = structlog.get_logger(__name__)
ROUNDING = 1e-6
ANSWER_ONLY = "answered only: the staleness bound had no room when it was asked"


def refine(groups: Sequence[Group]) -> int:
    """Admit or drop these claimed groups, each in its own transaction; returns how many were admitted."""
    prefetch_related_objects(groups, "task")
    rollouts = _finished(groups)
    judgements = judgements_of([rollout.pk for rows in rollouts.values() for rollout in rows])
    admitted = sum(_refine_held(group, rollouts[group.pk], judgements) for group in groups)
    if admitted:
        bells.ring("train")
    return admitted


def _refine_held(group: Group, rollouts: list[Rollout], judgements: dict[int, list[Judgement]]) -> bool:
    """A group that is no longer ours is left to whoever holds it, and the others go on."""
    try:
        return _refine_one(group, rollouts, judgements)
    except StaleFence as taken:
        log.warning("group_taken_over", group=group.pk, reason=str(taken))
        return False


@transaction.atomic
def _refine_one(group: Group, rollouts: list[Rollout], judgements: dict[int, list[Judgement]]) -> bool:
    plan, domain = group.run.settings, group.task.domain
    usable = [(rollout, reward) for rollout in rollouts if _is_number(reward := combined(judgements[rollout.pk], plan, domain))]
    is_admitted = _decide(group, plan, rollouts, usable, judgements)
    _record(group, plan, [reward for _, reward in usable])
    return is_admitted


def _record(group: Group, plan: RunConfig, rewards: list[float]) -> None:
    """What the group tells of its task, also where nothing can be learned from it: all right or all wrong tells most."""
    if rewards and plan.samples and not plan.serve:
        successes = [success(reward, plan, group.task.domain) for reward in rewards]
        beliefs = plan.selection if isinstance(plan.selection, Bots) else Bots()
        TaskRecord.add(group.run_id, group.task_id, group.draw_index, successes, plan.groups_per_step, beliefs)


def _decide(
    group: Group,
    plan: RunConfig,
    rollouts: list[Rollout],
    usable: list[tuple[Rollout, float]],
    judgements: dict[int, list[Judgement]],
) -> bool:
    if reason := _why_drop(group, plan, rollouts, usable, judgements):
        group.drop(reason)
        return False
    counted = _with_length(plan, group, usable)
    advantages = of_group(plan, [_judged(plan, rollout, reward, judgements[rollout.pk]) for rollout, reward in counted])
    if advantages is None:
        group.drop(_nothing_to_learn(plan))
        return False
    group.move(Group.State.ADMITTED, closed_at=Now())
    Experience.objects.put(
        Experience(
            run_id=group.run_id,
            group=group,
            rollout=rollout,
            reward=reward,
            advantage=advantage,
            weight_version=rollout.first_version,
        )
        for (rollout, reward), advantage in zip(usable, advantages, strict=True)
        if advantage or plan.algorithm.advantage.name != "best"
    )
    return True


def _with_length(plan: RunConfig, group: Group, usable: list[tuple[Rollout, float]]) -> list[tuple[Rollout, float]]:
    """What the rollouts are compared by: their rewards, and their length once its penalty has begun.

    The rewards that are kept stay what was said about the answers.
    """
    penalty = plan.length_penalty
    if penalty is None or _draw_of(plan, group) // plan.groups_per_step < penalty.from_step:
        return usable
    full = full_reward(plan, group.task.domain) - ROUNDING
    lengths = length_rewards([rollout.completion_tokens for rollout, _ in usable], [reward >= full for _, reward in usable])
    return [(rollout, reward + penalty.weight * extra) for (rollout, reward), extra in zip(usable, lengths, strict=True)]


def _draw_of(plan: RunConfig, group: Group) -> int:
    """Where the group stood among the draws of the run that sampled it."""
    return group.draw_index if plan.replay is None else group.recorded.values_list("of__draw_index", flat=True).get()


def _is_number(reward: float | None) -> bool:
    return reward is not None and math.isfinite(reward)


def _judged(plan: RunConfig, rollout: Rollout, reward: float, judgements: list[Judgement]) -> Judged:
    by_scorer = {judgement.scorer: judgement.value for judgement in judgements if not judgement.is_human}
    turns = len(stretches(rollout.tokens.action_mask)) if plan.algorithm.advantage.name == "step_wise_grpo" else 1
    return Judged(reward, by_scorer, turns)


def _why_drop(
    group: Group,
    plan: RunConfig,
    rollouts: list[Rollout],
    usable: list[tuple[Rollout, float]],
    judgements: dict[int, list[Judgement]],
) -> str:
    if group.answer_only:
        return ANSWER_ONLY
    if plan.serve and not usable:
        return _why_worthless(plan, rollouts, judgements)
    fewest = plan.algorithm.advantage.fewest
    if len(usable) < fewest:
        return f"{len(usable)} of {plan.group_size} rollouts have a reward; a group needs {fewest}"
    heard = any(judgement.is_human for rollout, _ in usable for judgement in judgements[rollout.pk])
    if plan.people.asks_about(group.task.domain) and plan.people.at_deadline == "drop" and not heard:
        return "nobody judged it before its deadline"
    return ""


def _why_worthless(plan: RunConfig, rollouts: list[Rollout], judgements: dict[int, list[Judgement]]) -> str:
    """Why the one answer to what a caller asked has no reward."""
    if not rollouts:
        return "it was not answered"
    unsaid = [one for one in judgements[rollouts[0].pk] if one.scorer == plan.environment.name and one.value is None]
    return "nobody said in time what it is worth" if unsaid else "a scorer gave it no reward"


def _nothing_to_learn(plan: RunConfig) -> str:
    advantage = plan.algorithm.advantage
    if advantage.name == "best":
        return f"none of its rollouts has a reward of {advantage.at_least:g} or more"
    return f"its rewards spread no wider than {advantage.std_threshold:g}"


def _finished(groups: Sequence[Group]) -> dict[int, list[Rollout]]:
    """What the policy can learn from; an answer that a person typed from its first word to its last is a lesson, no sample."""
    found = defaultdict(list)
    finished = Rollout.objects.filter(group__in=groups, state=Rollout.State.FINISHED, completion_tokens__gt=0)
    for rollout in finished.exclude(origin=Rollout.Origin.SYNTHETIC).order_by("sample_index"):
        if spoken_by_policy(rollout):
            found[rollout.group_id].append(rollout)
    return found
