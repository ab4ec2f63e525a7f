"""Runs as rows of the list: with their figures of now, in a number of queries that does not grow with them."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import QuerySet
from django.db.models.fields.json import KeyTextTransform

from apps.accounts.models import User
from apps.dashboard.curves import polyline, recent_rewards
from apps.runs.blindness import open_among
from apps.runs.costs import Cost, cost_of
from apps.runs.models import Metric, Run

SHORT_HOURS = 0.1


@dataclass(frozen=True)
class RunRow:
    """`spark`: the points of a curve. Rewards, people's share and notes are there for those alone who do not judge it blind."""

    run: Run
    is_open: bool
    reward: float | None
    trend: float | None
    spark: str
    people_share: float | None
    tokens_per_s: float | None
    cost: str


def listed(runs: QuerySet[Run]) -> QuerySet[Run]:
    """With what a row says; the configuration, which is long, stays where it is but for the algorithm's name."""
    algorithm = KeyTextTransform("name", KeyTextTransform("algorithm", "config"))
    named = runs.select_related("project", "policy", "owner").with_tasksets()
    return named.defer("config").annotate(algorithm=algorithm)


def in_order(runs: Sequence[Run]) -> list[Run]:
    """These runs with what a row says, in their order; one query."""
    keys = [run.pk for run in runs]
    known = listed(Run.objects.all()).in_bulk(keys)
    return [known[key] for key in keys if key in known]


def rows_of(runs: Sequence[Run], user: User) -> list[RunRow]:
    """Five queries."""
    keys = [run.pk for run in runs]
    is_open = open_among(user, keys)
    rewards = recent_rewards([run for run in runs if run.pk in is_open])
    shares, costs = _people_shares([run for run in runs if run.pk in is_open]), cost_of(runs)
    return [
        RunRow(
            run, run.pk in is_open,
            reward=run.reward_now if run.pk in is_open else None,
            trend=_trend(rewards.get(run.pk, [])), spark=polyline(rewards.get(run.pk, [])),
            people_share=shares.get(run.pk),
            tokens_per_s=run.tokens_per_s_now, cost=_cost_words(costs[run.pk]),
        )
        for run in runs
    ]  # fmt: skip


def _trend(rewards: Sequence[float]) -> float | None:
    """By how much the mean of the later half is above that of the earlier; None of less than four."""
    half = len(rewards) // 2
    return sum(rewards[-half:]) / half - sum(rewards[:half]) / half if half > 1 else None


def _cost_words(cost: Cost) -> str:
    """Money where the project has said what hours cost, else the hours of the dearest device that was used."""
    if cost.has_prices:
        return f"{cost.money:,.2f} {cost.currency}".strip()
    for hours, device in ((cost.gpu_hours, "GPU"), (cost.cpu_hours, "CPU")):
        if hours:
            return f"{hours:,.1f} {device} h" if hours >= SHORT_HOURS else f"{60 * hours:,.0f} {device} min"
    return ""


def _people_shares(runs: Sequence[Run]) -> dict[int, float]:
    """By run (id), of its newest update."""
    return dict(Metric.objects.of_last_steps(runs, 1).filter(name="people_share").values_list("run_id", "value"))
