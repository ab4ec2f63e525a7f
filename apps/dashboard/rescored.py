"""Effects of a new set of rewards: metrics and two pictures, from a few sums over its rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from django.db import connection
from django.db.models import Avg, Count, F, Max, Min, Q, QuerySet

from apps.rewards.models import Rescored, RescoredGroup, RescoredReward, Rescoring, Reward

REASONS_SHOWN = 8
BARS = 21  # of the picture of differences
CELLS = 16  # per side of the picture of before and after
BOTH = Q(before__isnull=False, after__isnull=False)
Fate = Rescored.Fate


@dataclass(frozen=True)
class Side:
    """One scorer's metrics before or after; None if it did not judge there."""

    weight: float
    mean: float | None = None
    judged: int = 0
    missing: int = 0


@dataclass(frozen=True)
class Bar:
    """A bar of reward differences, in shares of the picture's height.

    `side` is lower, same (around zero) or higher.
    """

    x: float
    height: float
    side: str
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Cell:
    """The number of rollouts with an old reward in this column and a new one in this row.

    `share` is relative to the fullest cell.
    """

    x: int
    y: int
    count: int
    share: float


@dataclass(frozen=True)
class Comparison:
    """The comparison; `counted` rollouts would be trained with another reward.

    Ratings of people are included.
    """

    rescoring: Rescoring
    rollouts: int
    fates: dict[str, int]
    before: float | None
    after: float | None
    lowest: float | None
    highest: float | None
    widest: float
    counted: int
    groups: dict[str, int]
    scorers: dict[str, tuple[Side | None, Side | None]] = field(default_factory=dict)
    reasons: Sequence[tuple[str, str, int]] = ()

    @property
    def changed(self) -> int:
        return self.fates[Fate.HIGHER] + self.fates[Fate.LOWER]

    @property
    def share(self) -> float | None:
        return self.changed / self.rollouts if self.rollouts else None

    @cached_property
    def bars(self) -> list[Bar]:
        """Return how many rollouts changed by how much.

        Unchanged ones are left out, because they would hide the others.
        """
        if not self.changed:
            return []
        wide = 2 * self.widest / BARS
        counts = _count_rows(DIFFERENCES, [-self.widest, self.widest, BARS, self.rescoring.pk])
        bar_counts = [0] * BARS
        for bucket, count in counts:
            bar_counts[min(bucket, BARS) - 1] += (
                count  # the largest difference lies on the last edge
            )
        middle = BARS // 2
        largest_count = max(bar_counts)
        return [
            Bar(
                n / BARS,
                count / largest_count,
                "lower" if n < middle else "same" if n == middle else "higher",
                n * wide - self.widest,
                (n + 1) * wide - self.widest,
                count,
            )
            for n, count in enumerate(bar_counts)
        ]

    @cached_property
    def cells(self) -> list[Cell]:
        if self.lowest is None or self.lowest == self.highest:
            return []
        ends = [self.lowest, self.highest, CELLS]
        counts: dict[tuple[int, int], int] = {}
        for before, after, count in _count_rows(
            BEFORE_AND_AFTER, [*ends, *ends, self.rescoring.pk]
        ):
            place = min(before, CELLS) - 1, CELLS - min(after, CELLS)
            counts[place] = counts.get(place, 0) + count
        largest_count = max(counts.values())
        return [
            Cell(x, y, count, (count / largest_count) ** 0.5)
            for (x, y), count in sorted(counts.items())
        ]


# The ORM has no width_bucket.
DIFFERENCES = """
    SELECT width_bucket(after - before, %s, %s, %s) AS bucket, count(*) FROM rewards_rescored
    WHERE rescoring_id = %s AND fate IN ('higher', 'lower') GROUP BY bucket"""
BEFORE_AND_AFTER = """
    SELECT width_bucket(before, %s, %s, %s) AS x, width_bucket(after, %s, %s, %s) AS y, count(*)
        FROM rewards_rescored
    WHERE rescoring_id = %s AND before IS NOT NULL AND after IS NOT NULL GROUP BY x, y"""


def _count_rows(sql: str, values: Sequence) -> list[tuple]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchall()


def compare_rescoring(rescoring: Rescoring) -> Comparison:
    """Return the comparison, in seven queries whatever the number of rollouts."""
    rows = Rescored.objects.filter(rescoring=rescoring)
    by_fate = {f"n_{fate}": Count("pk", filter=Q(fate=fate)) for fate in Fate.values}
    counted_differently = ~Q(counted_before=F("counted_after")) & (
        Q(counted_before__isnull=False) | Q(counted_after__isnull=False)
    )
    totals = rows.aggregate(
        rollouts=Count("pk"),
        mean_before=Avg("before", filter=BOTH),
        mean_after=Avg("after", filter=BOTH),
        widest=Max("size"),
        lowest_before=Min("before", filter=BOTH),
        lowest_after=Min("after", filter=BOTH),
        highest_before=Max("before", filter=BOTH),
        highest_after=Max("after", filter=BOTH),
        counted=Count("pk", filter=counted_differently),
        **by_fate,
    )
    ends = {
        name: pick(
            (
                value
                for value in (totals[f"{name}_before"], totals[f"{name}_after"])
                if value is not None
            ),
            default=None,
        )
        for name, pick in (("lowest", min), ("highest", max))
    }
    return Comparison(
        rescoring,
        totals["rollouts"],
        {fate: totals[f"n_{fate}"] for fate in Fate.values},
        totals["mean_before"],
        totals["mean_after"],
        ends["lowest"],
        ends["highest"],
        totals["widest"] or 0.0,
        totals["counted"],
        _groups(rescoring),
        _scorers(rescoring),
        _reasons(rescoring),
    )


def groups_that(rescoring: Rescoring) -> dict[str, Q]:
    """Return the filters of groups by the change of their rewards, by their names in the URL."""
    return {
        "best": Q(other_best=True),
        "appears": Q(signal_before=False, signal_after=True),
        "vanishes": Q(signal_before=True, signal_after=False),
    }


def _groups(rescoring: Rescoring) -> dict[str, int]:
    judged = RescoredGroup.objects.filter(rescoring=rescoring, done_at__isnull=False)
    return judged.aggregate(
        judged=Count("pk"),
        **{
            name: Count("pk", filter=condition)
            for name, condition in groups_that(rescoring).items()
        },
    )


def _scorers(rescoring: Rescoring) -> dict[str, tuple[Side | None, Side | None]]:
    """Return each scorer's metrics before and after, over the rollouts that were judged again."""
    before = {choice["scorer"]: choice["weight"] for choice in rescoring.compared_with}
    after = {choice["scorer"]: choice["weight"] for choice in rescoring.rewards}
    old = Reward.objects.filter(rollout__rescored__rescoring=rescoring, by=None, scorer__in=before)
    new = RescoredReward.objects.filter(rescoring=rescoring)
    metrics_before = _metrics_by_scorer(old)
    metrics_after = _metrics_by_scorer(new)
    return {
        name: (_side(name, before, metrics_before), _side(name, after, metrics_after))
        for name in dict.fromkeys([*after, *before])
    }


def _metrics_by_scorer(rewards: QuerySet) -> dict[str, dict[str, Any]]:
    rows = rewards.order_by().values("scorer")
    metrics = rows.annotate(
        mean=Avg("value"), judged=Count("pk"), missing=Count("pk", filter=Q(value=None))
    )
    return {row["scorer"]: row for row in metrics}


def _side(
    scorer: str, weights: Mapping[str, float], rewards: Mapping[str, Mapping[str, Any]]
) -> Side | None:
    if scorer not in weights:
        return None
    row = rewards.get(scorer)
    if row is None:
        return Side(weights[scorer])
    return Side(weights[scorer], row["mean"], row["judged"], row["missing"])


def _reasons(rescoring: Rescoring) -> list[tuple[str, str, int]]:
    missing = (
        RescoredReward.objects.filter(rescoring=rescoring, value=None)
        .order_by()
        .values_list("scorer", "reason")
    )
    return list(missing.annotate(n=Count("pk")).order_by("-n", "scorer", "reason")[:REASONS_SHOWN])
