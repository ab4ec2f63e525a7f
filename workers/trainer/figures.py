"""The figures of a step that rows tell: rewards, staleness, lengths, throughput; and what a trainer waits for."""

import math
import statistics
from collections.abc import Sequence

from django.db.models import Avg, Count, Max, Q, Sum

from apps.buffer.models import Experience
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.config import RunConfig
from apps.runs.models import Run, TrainStep, Worker

ROUNDING = 1e-6
ON_THE_WAY = {
    Group.State.SAMPLING: "being sampled",
    Group.State.SCORING: "being scored",
    Group.State.WAITING: "waiting for people",
    Group.State.JUDGED: "to be refined",
}


def of_batch(run: Run, step: TrainStep, batch: Sequence[Experience]) -> dict[str, float]:
    """Means over the step's experiences; `staleness` in weight versions, `completion_length` in tokens."""
    rewards = [experience.reward for experience in batch]
    full = full_reward(run.settings)
    human = Q(source=Reward.Source.HUMAN)
    said = Reward.objects.filter(rollout__in=[experience.rollout_id for experience in batch], is_current=True)
    said = said.aggregate(reward_human=Avg("value", filter=human), reward_machine=Avg("value", filter=~human))
    return {
        "reward_mean": statistics.fmean(rewards),
        "reward_std": statistics.pstdev(rewards),
        "success": statistics.fmean(reward >= full - ROUNDING for reward in rewards),
        "staleness": statistics.fmean(step.version - experience.weight_version for experience in batch),
        "staleness_max": max(step.version - experience.weight_version for experience in batch),
        "completion_length": statistics.fmean(experience.rollout.completion_tokens for experience in batch),
        "rows": len(batch),
        **{name: value for name, value in said.items() if value is not None},
    }


def full_reward(plan: RunConfig) -> float:
    """What a rollout gets when every scorer (or, without scorers, every person) gives all it can."""
    return math.fsum(max(choice.weight, 0.0) for choice in plan.rewards) or 1.0


def of_time(run: Run, batch: Sequence[Experience], seconds: float, waited: float) -> dict[str, float]:
    """Seconds since the step before, the part of them spent waiting, and what explorers sampled meanwhile."""
    previous = run.steps.filter(state=TrainStep.State.COMMITTED).aggregate(at=Max("committed_at"))["at"] or run.started_at
    figures = {"step_seconds": seconds, "wait_seconds": waited}
    if previous and seconds > 0:
        # The batch's first rollout bounds the look-back, so that no answer costs more as the run grows.
        first = min(experience.rollout_id for experience in batch)
        recent = Rollout.objects.filter(run=run, pk__gte=first, finished_at__gt=previous)
        figures["explore_tokens_per_s"] = (recent.aggregate(n=Sum("completion_tokens"))["n"] or 0) / seconds
    return figures


def cause_of_waiting(run: Run) -> str:
    """What follows "waiting for": how many groups are missing and where those under way stand."""
    ready = Experience.objects.filter(run=run, state=Experience.State.READY).aggregate(n=Count("group", distinct=True))["n"]
    missing = max(1, run.settings.groups_per_step - ready)
    open_groups = dict(Group.objects.filter(run=run, state__in=ON_THE_WAY).order_by().values_list("state").annotate(n=Count("pk")))
    on_the_way = ", ".join(f"{open_groups[state]} {words}" for state, words in ON_THE_WAY.items() if state in open_groups)
    if not on_the_way and not Worker.objects.filter(role=Worker.Role.EXPLORER, stopped_at=None).exists():
        on_the_way = "no explorer is alive"
    return f"{missing} more group{'s' if missing > 1 else ''} ({on_the_way or 'none is under way'})"
