"""Content of a run's cost page: totals, shares, cost per step and reward, days, and limits."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Sum
from django.db.models.functions import Mod, TruncDay

from apps.buffer.models import Experience
from apps.dashboard.human_cost_benefit import ACCEPTED
from apps.dashboard.trends import Drawing, draw_series
from apps.runs.budget import Budget
from apps.runs.costs import CPU, GPU, METRICS, ROLES, Cost
from apps.runs.models import Metric, Run, Usage

POINTS = 200
ENDS = 5  # steps at each end whose mean reward is compared
DAYS_SHOWN = 14
MIN_GAIN = 0.01  # reward; the cost per point of a smaller gain means nothing
WORDS = {
    "gpu_hours": (
        "GPU hours",
        (
            "All roles, including evaluations. Counts the time in which an engine, a scorer's model"
            " or the trainer used a GPU."
        ),
    ),
    "cpu_hours": (
        "CPU hours",
        "CPU time of all roles and all threads.",
    ),
    "tokens": (
        "Sampled tokens",
        "Tokens of finished replies, including the messages between their turns.",
    ),
    "judge_tokens": (
        "Judge tokens",
        "Tokens that judges read and write.",
    ),
    "people_hours": (
        "People, hours",
        "From opening an item in a visible tab to the decision, without the simulated rater.",
    ),
    "money": ("Money", "Total at the project's current prices."),
}


@dataclass(frozen=True)
class Bar:
    """A limit of the budget, or an amount without one; `used` and `limit` in the field's unit."""

    field: str
    title: str
    why: str
    used: float
    limit: float | None
    typed: str = ""
    wrong: str = ""

    @property
    def share(self) -> float:
        return self.used / self.limit if self.limit else 0.0


@dataclass(frozen=True)
class Role:
    name: str
    gpu_hours: float
    cpu_hours: float


@dataclass(frozen=True)
class Gain:
    """The mean reward of the first and of the newest steps."""

    first: float
    last: float

    @property
    def points(self) -> float:
        """Return the gain in hundredths of a reward."""
        return 100 * (self.last - self.first)


@dataclass(frozen=True)
class Unit:
    """The cost of one step, accepted experience, or point of reward."""

    name: str
    why: str
    count: float
    values: dict[str, float]


def build_cost_bars(run: Run, cost: Cost) -> list[Bar]:
    limits = run.settings.budget.model_dump() if run.settings.budget else {}
    spent = cost.spent
    return [Bar(name, *WORDS[name], spent[name], limits.get(name)) for name in Budget.model_fields]


def list_cost_roles(cost: Cost) -> list[Role]:
    roles = [
        Role(role, cost.of(f"{role}.{GPU}") / 3600, cost.of(f"{role}.{CPU}") / 3600)
        for role in ROLES
    ]
    return [role for role in roles if role.gpu_hours or role.cpu_hours]


def cost_per_unit(run: Run, cost: Cost, gain: Gain | None, is_open: bool) -> list[Unit]:
    """Return the cost per unit, for units of which there are some.

    People who rate blind get no units that reveal rewards.
    """
    counts = [("step", "Completed steps, including skipped ones.", float(run.step))]
    if is_open:
        census = Experience.objects.census(run)
        accepted = sum(census[state] for state in ACCEPTED)
        why = "Experiences that passed the pipeline and were not dropped."
        counts.append(("accepted experience", why, float(accepted)))
    if gain and gain.points >= 100 * MIN_GAIN:
        why = (
            f"Gain of 0.01 in mean reward: from {gain.first:.2f} in the first {ENDS} steps"
            f" to {gain.last:.2f} in the last."
        )
        counts.append(("0.01 of reward", why, gain.points))
    spent = cost.spent
    return [
        Unit(name, why, count, {field: spent[field] / count for field in METRICS.values()})
        for name, why, count in counts
        if count
    ]


def compute_gain(run: Run) -> Gain | None:
    """Return the gain in reward; None before there are two sets of steps to compare."""
    rewards = Metric.objects.filter(run=run, name="reward_mean").values_list("value", flat=True)
    first = list(rewards.filter(step__lte=ENDS))
    last = list(rewards.filter(step__gt=max(ENDS, run.step - ENDS)))
    if not first or not last:
        return None
    return Gain(statistics.fmean(first), statistics.fmean(last))


def against_cost(run: Run, field: str) -> Drawing | None:
    """Return the drawing of mean reward over the cumulative cost.

    Of a long run, every nth step and the newest are drawn.
    """
    name = next(metric for metric, measure in METRICS.items() if measure == field)
    wide = max(1, run.step // POINTS)
    rows = Metric.objects.filter(run=run, name__in=(name, "reward_mean")).annotate(
        rest=Mod(F("step"), wide)
    )
    values_by_step: dict[int, dict[str, float]] = defaultdict(dict)
    for step, metric, value in rows.filter(rest=run.step % wide).values_list(
        "step", "name", "value"
    ):
        values_by_step[step][metric] = value
    pairs = [
        (row[name], row["reward_mean"])
        for _, row in sorted(values_by_step.items())
        if len(row) == 2
    ]
    is_moving = len({used for used, _ in pairs}) > 1
    return draw_series({"reward_mean": pairs}) if is_moving else None


def list_cost_measures(run: Run, cost: Cost) -> list[str]:
    """Return the measures of cost that the run's steps recorded, money first."""
    order = ["money", "gpu_hours", "cpu_hours", "tokens", "people_hours", "judge_tokens"]
    recorded = set(
        Metric.objects.filter(run=run, step=run.step, name__in=list(METRICS)).values_list(
            "name", flat=True
        )
    )
    return [
        field
        for field in order
        if any(known_name in recorded for known_name, of in METRICS.items() if of == field)
    ]


@dataclass(frozen=True)
class Day:
    at: datetime
    cost: Cost


def list_cost_days(run: Run, cost: Cost) -> Sequence[Day]:
    """Return the newest days on which the run, or an evaluation of its versions, used resources."""
    concerned = [run.pk, *Run.objects.filter(evaluates__run=run).values_list("pk", flat=True)]
    rows = (
        Usage.objects.filter(run__in=concerned)
        .order_by()
        .annotate(day=TruncDay("hour"))
        .values_list("day", "kind")
    )
    amounts_by_day: dict[datetime, dict[str, float]] = defaultdict(dict)
    for day, kind, amount in rows.annotate(total=Sum("amount")):
        amounts_by_day[day][kind] = amount
    return [
        Day(day, Cost(amounts_by_day[day], cost.prices))
        for day in sorted(amounts_by_day, reverse=True)[:DAYS_SHOWN]
    ]
