"""The distribution of rewards over filtered rollouts: bars of a bounded sample, the newest."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from django.db.models import QuerySet

from apps.buffer.models import Experience
from apps.dashboard.rollout_search import LOOKED_THROUGH, Filter
from apps.dashboard.text_search import search_ids
from apps.rewards.combining_rows import combined_so_far
from apps.rewards.models import Reward
from apps.rollouts.models import Rollout
from apps.runs.models import Run

SAMPLE = 1_000  # rollouts
BINS = 10
HEIGHT = 72.0  # CSS pixels


@dataclass(frozen=True)
class RewardBar:
    """A bar from `low` to `high`, rounded for people.

    `since` and `until` are the exact bounds for the list of its rollouts, which exclude those of
    the next bar.
    """

    low: str
    high: str
    since: str
    until: str
    count: int
    x: float
    height: float

    @property
    def top(self) -> float:
        return HEIGHT - self.height


@dataclass(frozen=True)
class RewardBars:
    """The bars; `fit` rollouts matched and `judged` of them have a reward.

    `reach` is the number of newest rollouts that were scanned, if not all.
    """

    bars: Sequence[RewardBar]
    fit: int
    judged: int
    mean: float
    middle: float
    reach: int | None

    @property
    def low(self) -> str:
        return self.bars[0].low

    @property
    def high(self) -> str:
        return self.bars[-1].high

    @property
    def is_all(self) -> bool:
        return self.fit < SAMPLE and self.reach is None


def build_reward_bars(run: Run, form: Filter, rollouts: QuerySet[Rollout]) -> RewardBars | None:
    """Return the bars, or None if no matching rollout has a reward."""
    ids, reach = _newest(run, form, rollouts)
    rewards = sorted(_rewards(run, form, ids))
    if not rewards:
        return None
    low, high = _value_range(form, rewards)
    edges = [low + (high - low) * n / BINS for n in range(BINS + 1)]
    counts = [0] * BINS
    for value in rewards:
        counts[min(BINS - 1, max(0, bisect_right(edges, value) - 1))] += 1
    scale = HEIGHT / max(counts)
    wide = 100 / BINS
    bars = [
        RewardBar(
            f"{edges[n]:.6g}",
            f"{edges[n + 1]:.6g}",
            repr(edges[n]),
            repr(_last_within(edges, n)),
            count,
            round(n * wide, 2),
            round(scale * count, 1),
        )
        for n, count in enumerate(counts)
    ]
    return RewardBars(bars, len(ids), len(rewards), fmean(rewards), median(rewards), reach)


def _last_within(edges: Sequence[float], n: int) -> float:
    """Return the largest value of the nth bar.

    The last bar includes its upper edge, the others do not.
    """
    return edges[n + 1] if n + 2 == len(edges) else math.nextafter(edges[n + 1], -math.inf)


def _newest(run: Run, form: Filter, rollouts: QuerySet[Rollout]) -> tuple[list[int], int | None]:
    """Return the ids of the sample, and how many rollouts were scanned if not the whole run."""
    if form.sought:
        ids, edge = search_ids(
            rollouts, form.sought, run, SAMPLE, among=form.among(run), reach=form.reach
        )
        return ids, None if edge is None else run.rollouts.filter(pk__gte=edge).count()
    newest = rollouts.order_by("run_id", "-pk").values_list("pk", flat=True)
    reach = None
    if form.reach:
        all_ids = form.among(run).order_by("run_id", "-pk").values_list("pk", flat=True)
        if edge := next(iter(all_ids[LOOKED_THROUGH - 1 : LOOKED_THROUGH]), None):
            newest = newest.filter(pk__gte=edge)
            reach = LOOKED_THROUGH
    return list(newest[:SAMPLE]), reach


def _rewards(run: Run, form: Filter, ids: Sequence[int]) -> list[float]:
    """Return the rewards that the filter's range is about.

    These are one scorer's rewards if the filter names one, else the rewards that the list shows.
    """
    if judge_criteria := {
        name: form.criteria[name] for name in ("source", "scorer") if name in form.criteria
    }:
        rewards = Reward.objects.filter(
            rollout__in=ids,
            is_current=True,
            value__isnull=False,
            **judge_criteria,
            **form.bounds("value"),
        )
        values = rewards.values_list("value", flat=True)
        return [value for value in values if value is not None]
    admitted = dict(
        Experience.objects.filter(rollout__in=ids)
        .order_by("-pk")
        .values_list("rollout_id", "reward")
    )
    not_admitted = Rollout.objects.filter(pk__in=[pk for pk in ids if pk not in admitted])
    so_far = not_admitted.annotate(so_far=combined_so_far(run.settings)).values_list(
        "so_far", flat=True
    )
    return [value for value in (*admitted.values(), *so_far) if value is not None]


def _value_range(form: Filter, rewards: Sequence[float]) -> tuple[float, float]:
    """Return the range that the filter asks for; else 0 to 1 if that contains all rewards."""
    low, high = rewards[0], rewards[-1]
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    low = form.criteria.get("reward_from", low)
    high = form.criteria.get("reward_to", high)
    return (low, high) if high > low else (low, low + 1)
