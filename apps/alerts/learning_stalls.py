"""Runs that learned nothing lately: every group of a window was dropped, and why."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run

MAX_WINDOW = 2_000  # groups
CAUSES = 3
MAX_CAUSE_LENGTH = 110  # characters
NUMBER = re.compile(r"\d+(?:\.\d+)?")
WITHOUT_REWARDS = re.compile(r"\d+ of \d+ rollouts have a reward")


@dataclass(frozen=True)
class Fruitless:
    """A window of dropped groups.

    `groups` is how many were dropped in a row; `causes` are pairs (count, reason), the most common
    first.
    """

    groups: int
    since: datetime
    causes: Sequence[tuple[int, str]]


def fruitless_window(run: Run) -> int:
    """Return the number of groups that the run's rule examines; 0 if it examines none.

    Runs that serve an application are excluded: there it is normal that answers get no rating, and
    pausing the run would turn its callers away.
    """
    plan = run.settings
    rule = plan.alerts.nothing_learned
    if rule is None or plan.evaluation or plan.serve or not plan.samples:
        return 0
    return min(rule.steps * plan.groups_per_step, MAX_WINDOW)


def fruitless_runs(runs: Iterable[Run]) -> dict[int, Fruitless]:
    """Return, by run id, the runs whose newest window of groups was dropped whole.

    The window begins after the run's last start.
    """
    windows = {run: fruitless_window(run) for run in runs if run.is_live}
    windows_by_run = {
        run.pk: (run, size) for run, size in windows.items() if 0 < size <= run.groups_dropped
    }
    if not windows_by_run:
        return {}
    windows_dropped = _all_dropped(windows_by_run)
    return {
        run_id: _describe_stall(run_id, first, since) for run_id, first, since in windows_dropped
    }


def _all_dropped(windows_by_run: Mapping[int, tuple[Run, int]]) -> list[tuple[int, int, datetime]]:
    """Return (run, first group of its window, time it was dropped) for all runs, in one query."""
    sizes = [size for _, size in windows_by_run.values()]
    since = [run.state_since or run.created_at for run, _ in windows_by_run.values()]
    trained = [run.trained_at for run, _ in windows_by_run.values()]
    with connection.cursor() as cursor:
        cursor.execute(ALL_DROPPED, [list(windows_by_run), sizes, since, trained])
        return cursor.fetchall()


def _describe_stall(run_id: int, first: int, since: datetime) -> Fruitless:
    dropped = Group.objects.filter(run=run_id, state=Group.State.DROPPED, pk__gte=first)
    reasons = dict(dropped.order_by("-pk").values_list("pk", "reason"))
    vague = [pk for pk, reason in reasons.items() if WITHOUT_REWARDS.match(reason)]
    reasons |= _why_without_rewards(vague)
    return Fruitless(len(reasons), since, most_common(reasons.values()))


def most_common(reasons: Iterable[str]) -> list[tuple[int, str]]:
    """Count the reasons, the most common first.

    Reasons that differ only in numbers count as one, in their most common wording.
    """
    forms: dict[str, Counter[str]] = {}
    for reason in reasons:
        forms.setdefault(NUMBER.sub("#", reason), Counter())[reason] += 1
    causes = [(sum(form.values()), form.most_common(1)[0][0]) for form in forms.values()]
    top_causes = sorted(causes, reverse=True)[:CAUSES]
    return [(count, words[:MAX_CAUSE_LENGTH]) for count, words in top_causes]


def _why_without_rewards(groups: Sequence[int]) -> dict[int, str]:
    """Return, by group, why its rollouts failed or why scorers gave them no reward."""
    missing = Reward.objects.filter(rollout__group__in=groups, value=None)
    failed = Rollout.objects.filter(group__in=groups, state=Rollout.State.FAILED)
    reasons = dict(missing.order_by("-pk").values_list("rollout__group", "reason"))
    return reasons | dict(failed.order_by("-pk").values_list("group", "stop_reason"))


# The window's first group is the oldest of the last `size` dropped groups. Nothing was learned if
# no group from that one on was admitted, and no step was made since it was dropped.
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
