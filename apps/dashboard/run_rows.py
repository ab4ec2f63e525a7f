"""Runs as rows of the list, with current metrics; the number of queries is fixed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models.fields.json import KeyTextTransform

from apps.accounts.models import User
from apps.dashboard.curves import polyline, recent_rewards
from apps.runs.blind_review import open_among
from apps.runs.costs import Cost, load_costs
from apps.runs.models import Metric, Run
from apps.runs.models.run_lists import RunQuerySet

SHORT_HOURS = 0.1


@dataclass(frozen=True)
class RunRow:
    """A run's row; `spark` holds the points of a curve.

    Rewards, people's share and notes are left out for people who rate the run blind.
    """

    run: Run
    is_open: bool
    reward: float | None
    trend: float | None
    spark: str
    people_share: float | None
    tokens_per_s: float | None
    cost: str

    @property
    def sentence(self) -> str:
        """Return the run's state in words: its progress, and what it waits for.

        The reason of a pause is left out for people who rate the run blind.
        """
        state = self.run.get_state_display()
        parts = [state[0].upper() + state[1:]]
        if not self.run.is_evaluation:
            parts.append(f"step {self.run.step:,} of {self.run.planned_steps:,}")
        if self.run.is_live and self.run.waiting_on:
            parts.append(f"waiting for {self.run.waiting_on}")
        elif not self.run.is_live and self.is_open and self.run.state_reason:
            parts.append(self.run.state_reason)
        return " · ".join(parts)


def defer_for_rows(runs: RunQuerySet) -> RunQuerySet:
    """Load what a row shows; the long configuration is deferred except for the algorithm's name."""
    algorithm = KeyTextTransform("name", KeyTextTransform("algorithm", "config"))
    with_related = runs.select_related("project", "policy", "owner").with_tasksets()
    return with_related.defer("config").annotate(algorithm=algorithm)


def load_runs_in_order(runs: Iterable[Run]) -> list[Run]:
    """Return these runs loaded for rows, in their order; one query."""
    keys = [run.pk for run in runs]
    runs_by_id = defer_for_rows(Run.objects.all()).in_bulk(keys)
    return [runs_by_id[key] for key in keys if key in runs_by_id]


def build_run_rows(runs: Sequence[Run], user: User) -> list[RunRow]:
    """Return the rows of these runs, in five queries."""
    keys = [run.pk for run in runs]
    is_open = open_among(user, keys)
    rewards = recent_rewards([run for run in runs if run.pk in is_open])
    shares = _people_shares([run for run in runs if run.pk in is_open])
    costs = load_costs(runs)
    return [
        RunRow(
            run,
            run.pk in is_open,
            reward=run.reward_now if run.pk in is_open else None,
            trend=_trend(rewards.get(run.pk, [])),
            spark=polyline(rewards.get(run.pk, [])),
            people_share=shares.get(run.pk),
            tokens_per_s=run.tokens_per_s_now,
            cost=_cost_words(costs[run.pk]),
        )
        for run in runs
    ]


def _trend(rewards: Sequence[float]) -> float | None:
    """Return the later half's mean less the earlier half's; None for fewer than four rewards."""
    half = len(rewards) // 2
    return sum(rewards[-half:]) / half - sum(rewards[:half]) / half if half > 1 else None


def _cost_words(cost: Cost) -> str:
    """Describe the cost: money if the project has prices, else hours of the dearest device."""
    if cost.has_prices:
        return f"{cost.money:,.2f} {cost.currency}".strip()
    for hours, device in ((cost.gpu_hours, "GPU"), (cost.cpu_hours, "CPU")):
        if hours:
            return (
                f"{hours:,.1f} {device} h"
                if hours >= SHORT_HOURS
                else f"{60 * hours:,.0f} {device} min"
            )
    return ""


def _people_shares(runs: Sequence[Run]) -> dict[int, float]:
    """Return people's share in each run's newest step, by run id."""
    return dict(
        Metric.objects.of_last_steps(runs, 1)
        .filter(name="people_share")
        .values_list("run_id", "value")
    )
