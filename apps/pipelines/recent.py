"""Statistics of a judged group and of the run's earlier groups, for operators that compare them."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from django.db.models import Q

from apps.pipelines.deciding import Case
from apps.pipelines.operators.contract import GroupMetrics, Recent
from apps.rewards.combining import Judgement, combined, full_reward, success
from apps.rewards.judgements import load_judgements
from apps.rollouts.models import Group, Rollout
from apps.runs.config import RunConfig
from apps.tasksets.judged_by import KEY as JUDGED_BY
from apps.tasksets.judged_by import Kind, find_judged_kind

# times the window of draws that are looked through: the others were dropped, or are not decided yet
REACH = 4
# Groups that reached the operator: groups that it removed are part of the comparison.
CAME = Q(state=Group.State.ADMITTED) | Q(state=Group.State.DROPPED, reason__startswith="balance: ")


def recent(cases: Sequence[Case], options: Sequence) -> list[Recent]:
    """Return the statistics of each group and of the groups before it, newest first."""
    plan = cases[0].group.run.settings
    window = max(option.window for option in options)
    before = [_before(case.group, window) for case in cases]
    metrics = _metrics(
        plan,
        {pk for group_ids in before for pk in group_ids},
        any(option.attribute == "success" for option in options),
    )
    return [
        Recent(_group_metrics(plan, case), tuple(metrics[pk] for pk in group_ids if pk in metrics))
        for case, group_ids in zip(cases, before, strict=True)
    ]


def _before(group: Group, window: int) -> list[int]:
    """Return the groups that were closed when this one was judged.

    A second attempt thus sees the same ones.
    """
    assert group.draw_index is not None  # as of every group with a size
    drawn = group.run.groups.filter(
        draw_index__lt=group.draw_index, draw_index__gte=group.draw_index - REACH * window
    )
    closed = drawn.filter(CAME, closed_at__lte=group.judged_at)
    return list(closed.order_by("-draw_index").values_list("pk", flat=True)[:window])


def _metrics(plan: RunConfig, groups: Iterable[int], with_success: bool) -> dict[int, GroupMetrics]:
    """Return statistics by group; `success` is 0 unless requested."""
    finished = Rollout.objects.filter(
        group__in=groups, state=Rollout.State.FINISHED, completion_tokens__gt=0
    )
    rows = list(
        finished.exclude(origin=Rollout.Origin.SYNTHETIC).values_list(
            "pk",
            "group_id",
            "completion_tokens",
            "group__task__domain",
            f"group__task__meta__{JUDGED_BY}",
        )
    )
    judgements = load_judgements([pk for pk, *_ in rows]) if with_success else {}
    answers: dict[tuple[int, Kind], list[tuple[int, int]]] = defaultdict(list)
    for pk, group, tokens, domain, judged_by in rows:
        answers[group, find_judged_kind(domain, judged_by)].append((pk, tokens))
    return {
        group: _build_metrics(plan, kind, some, judgements)
        for (group, kind), some in answers.items()
    }


def _group_metrics(plan: RunConfig, case: Case) -> GroupMetrics:
    answers = [(rollout.pk, rollout.completion_tokens) for rollout in case.rollouts]
    return _build_metrics(plan, case.group.task.kind, answers, case.judgements)


def _build_metrics(
    plan: RunConfig,
    kind: Kind,
    answers: Sequence[tuple[int, int]],
    judgements: Mapping[int, Sequence[Judgement]],
) -> GroupMetrics:
    rewards = [
        reward
        for pk, _ in answers
        if (reward := combined(judgements.get(pk, ()), plan, kind)) is not None
    ]
    full = full_reward(plan, kind)
    successes = [success(reward, full) for reward in rewards]
    return GroupMetrics(kind.domain, _mean([tokens for _, tokens in answers]), _mean(successes))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0
