"""The distinction between groups that lack rewards because work failed and those that do not."""

from apps.pipelines.deciding import Decision
from apps.rollouts.models import Rollout
from apps.runs.config import RunConfig


def is_failed(plan: RunConfig, decision: Decision) -> bool:
    """Tell whether a group lacks rewards because a rollout or an automatic scorer failed.

    A missing rating of a person is no failure.
    """
    if len(decision.rewards) >= plan.algorithm.advantage.min_rewards:
        return False
    case = decision.case
    judges = {choice.scorer for choice in plan.judges_of(case.group.task.kind)}
    judgements = (
        judgement for rollout in case.rollouts for judgement in case.judgements_of(rollout.pk)
    )
    if any(
        judgement.value is None and not judgement.is_human and judgement.scorer in judges
        for judgement in judgements
    ):
        return True
    return Rollout.objects.filter(group=case.group, state=Rollout.State.FAILED).exists()
