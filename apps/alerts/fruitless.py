"""Runs of which nothing could be learned lately: all groups of a window were dropped, and why."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run

LARGEST_WINDOW = 2_000  # groups
CAUSES = 3
LONGEST_CAUSE = 110  # characters
NUMBER = re.compile(r"\d+(?:\.\d+)?")
WITHOUT_REWARDS = re.compile(r"\d+ of \d+ rollouts have a reward")


@dataclass(frozen=True)
class Fruitless:
    """`groups`: dropped in a row; `causes`: (how often, in words), the most common first."""

    groups: int
    since: datetime
    causes: Sequence[tuple[int, str]]


def window_of(run: Run) -> int:
    """Groups that the run's rule looks at; 0 where it looks at none.

    A run that serves is left out: it is usual that nobody says what an answer was worth, and a
    paused run would turn its callers away.
    """
    plan = run.settings
    rule = plan.alerts.nothing_learned
    if rule is None or plan.evaluation or plan.serve or not plan.samples:
        return 0
    return min(rule.updates * plan.groups_per_step, LARGEST_WINDOW)


def fruitless_runs(runs: Iterable[Run]) -> dict[int, Fruitless]:
    """By run (id): those whose newest window of groups, since their last start, was all dropped."""
    windows = {run: window_of(run) for run in runs if run.is_live}
    asked = {run.pk: (run, size) for run, size in windows.items() if 0 < size <= run.groups_dropped}
    if not asked:
        return {}
    windows_dropped = _all_dropped(asked)
    return {run_id: _described(run_id, first, since) for run_id, first, since in windows_dropped}


def _all_dropped(asked: Mapping[int, tuple[Run, int]]) -> list[tuple[int, int, datetime]]:
    """(run, first group of its window, when that was dropped); one query for all runs."""
    sizes = [size for _, size in asked.values()]
    since = [run.state_since or run.created_at for run, _ in asked.values()]
    trained = [run.trained_at for run, _ in asked.values()]
    with connection.cursor() as cursor:
        cursor.execute(ALL_DROPPED, [list(asked), sizes, since, trained])
        return cursor.fetchall()


def _described(run_id: int, first: int, since: datetime) -> Fruitless:
    dropped = Group.objects.filter(run=run_id, state=Group.State.DROPPED, pk__gte=first)
    reasons = dict(dropped.order_by("-pk").values_list("pk", "reason"))
    vague = [pk for pk, reason in reasons.items() if WITHOUT_REWARDS.match(reason)]
    reasons |= _why_without_rewards(vague)
    return Fruitless(len(reasons), since, most_common(reasons.values()))


def most_common(reasons: Iterable[str]) -> list[tuple[int, str]]:
    """Count reasons that differ in numbers alone as one cause, in its most common words."""
    forms: dict[str, Counter[str]] = {}
    for reason in reasons:
        forms.setdefault(NUMBER.sub("#", reason), Counter())[reason] += 1
    causes = [(sum(form.values()), form.most_common(1)[0][0]) for form in forms.values()]
    most = sorted(causes, reverse=True)[:CAUSES]
    return [(count, words[:LONGEST_CAUSE]) for count, words in most]


def _why_without_rewards(groups: Sequence[int]) -> dict[int, str]:
    """By group: why its rollouts failed, or why scorers gave them no reward."""
    missing = Reward.objects.filter(rollout__group__in=groups, value=None)
    failed = Rollout.objects.filter(group__in=groups, state=Rollout.State.FAILED)
    found = dict(missing.order_by("-pk").values_list("rollout__group", "reason"))
    return found | dict(failed.order_by("-pk").values_list("group", "stop_reason"))


# The window's first group is the oldest of so many that were dropped last. Nothing was learned if
# no group from that one on was admitted, and no update was made since it was dropped.
ALL_DROPPED = """
    SELECT w.run, d.id, d.closed_at
    FROM unnest(%s::bigint[], %s::int[], %s::timestamptz[], %s::timestamptz[])
        AS w(run, size, since, trained_at)
    CROSS JOIN LATERAL (
        SELECT id, closed_at FROM rollouts_group
        WHERE run_id = w.run AND state = 'dropped' AND closed_at > w.since AND NOT answer_only
        ORDER BY id DESC OFFSET w.size - 1 LIMIT 1) d
    WHERE (w.trained_at IS NULL OR w.trained_at < d.closed_at) AND NOT EXISTS (
        SELECT 1 FROM rollouts_group g
        WHERE g.run_id = w.run AND g.state = 'admitted' AND g.draw_index IS NOT NULL
            AND g.id >= d.id)"""
