"""Rollouts for lists and cards: each with its reward, who judged it, and its task, in a fixed number of queries."""

from collections.abc import Sequence

from django.db.models import OuterRef, Prefetch, QuerySet, Subquery

from apps.buffer.models import Experience, StepItem
from apps.rewards.combining import Judgement, combined
from apps.rewards.models import Reward
from apps.rollouts.models import Rollout
from apps.runs.config import RunConfig
from apps.runs.models import Run

EXCERPT = 240
# The advantage in the newest update that took the experience; NULL: the experience's own.
COUNTED = Subquery(StepItem.objects.filter(experience=OuterRef("pk")).order_by("-step__number").values("advantage")[:1])


def with_judgements(rollouts: QuerySet[Rollout]) -> QuerySet[Rollout]:
    """Load what a row shows along with the rollouts: three queries in all."""
    current = Reward.objects.filter(is_current=True).select_related("by").order_by("source", "scorer", "pk")
    return rollouts.select_related("group__task", "run__project").prefetch_related(
        Prefetch("rewards", current, to_attr="judgements"),
        Prefetch("experiences", Experience.objects.annotate(counted=COUNTED).order_by("pk"), to_attr="learned"),
    )


def row(rollout: Rollout, plan: RunConfig) -> dict:
    """What a list shows of a rollout. The reward is the one used at admission, else what the judges have said so far."""
    return {
        "rollout": rollout,
        "reward": reward_of(rollout, plan),
        "judgements": rollout.judgements,
        "advantage": advantage_of(rollout.learned[0]) if rollout.learned else None,
        "question": rollout.group.task.question,
        "excerpt": rollout.text[:EXCERPT],
    }


def advantage_of(experience: Experience) -> float:
    """What it counted in its update where that depended on the whole batch, else what it counted in its group."""
    return experience.advantage if experience.counted is None else experience.counted


def reward_of(rollout: Rollout, plan: RunConfig) -> float | None:
    if rollout.learned:
        return rollout.learned[0].reward
    said = [Judgement(r.scorer, r.value, r.source == Reward.Source.HUMAN) for r in rollout.judgements]
    return combined(said, plan) if said else None


def rows(rollouts: Sequence[Rollout]) -> list[dict]:
    plans: dict[int, RunConfig] = {}
    for rollout in rollouts:
        plans.setdefault(rollout.run_id, rollout.run.settings)
    return [row(rollout, plans[rollout.run_id]) for rollout in rollouts]


def newest_rollouts(run: Run, count: int) -> list[dict]:
    """The last finished rollouts of the run."""
    finished = run.rollouts.filter(state=Rollout.State.FINISHED).order_by("-pk")[:count]
    return rows(with_judgements(finished))
