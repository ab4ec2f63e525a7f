"""The policy's actions in an environment, for operators that examine episodes."""

from collections.abc import Sequence

from apps.pipelines.deciding import Case
from apps.pipelines.operators.contract import Action, OperatorOptions
from apps.rollouts.models import Rollout


def load_actions(
    cases: Sequence[Case], options: Sequence[OperatorOptions]
) -> list[dict[int, list[Action]]]:
    """Return, for each group, the actions of each rollout's newest attempt, by rollout id."""
    homes = {rollout.pk: case.group.pk for case in cases for rollout in case.rollouts}
    answered = Rollout.objects.filter(
        pk__in=homes, episodes__seen__answered_at__isnull=False, episodes__seen__first__isnull=False
    )
    turns = answered.order_by("pk", "episodes__fence", "episodes__seen__number").values_list(
        "pk",
        "episodes__fence",
        "episodes__seen__first",
        "episodes__seen__tokens",
        "episodes__seen__reward",
    )
    attempts: dict[int, tuple[int, list[Action]]] = {}
    for rollout, fence, first, tokens, reward in turns:
        assert first is not None  # as filtered
        if rollout not in attempts or attempts[rollout][0] != fence:
            attempts[rollout] = (fence, [])
        attempts[rollout][1].append(Action(first + tokens, reward))
    actions_by_group: dict[int, dict[int, list[Action]]] = {case.group.pk: {} for case in cases}
    for rollout, (_, actions) in attempts.items():
        actions_by_group[homes[rollout]][rollout] = actions
    return [actions_by_group[case.group.pk] for case in cases]
