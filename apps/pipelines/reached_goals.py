"""Tasks for the goals that wrong answers reached, rendered by the template of the task's kind."""

from collections.abc import Sequence

from apps.pipelines.deciding import Case
from apps.pipelines.operators.contract import OperatorOptions
from apps.rewards.models import Reward
from apps.tasksets.generators import REACHED_BY
from apps.tasksets.rows import TaskRow
from apps.tasksets.storing import build_row


def find_reached_tasks(
    cases: Sequence[Case], options: Sequence[OperatorOptions]
) -> list[dict[int, TaskRow]]:
    """Return, for each group and rollout, the task for which its answer would be right."""
    homes = {rollout.pk: case for case in cases for rollout in case.rollouts}
    rewards = Reward.objects.filter(
        rollout__in=homes, scorer__in=REACHED_BY, is_current=True, details__has_key="reached"
    )
    tasks_by_group: dict[int, dict[int, TaskRow]] = {case.group.pk: {} for case in cases}
    for rollout, scorer, goal in rewards.values_list("rollout_id", "scorer", "details__reached"):
        case = homes[rollout]
        row = REACHED_BY[scorer].asking_for(build_row(case.group.task), goal)
        if row is not None:
            tasks_by_group[case.group.pk][rollout] = row
    return [tasks_by_group[case.group.pk] for case in cases]
