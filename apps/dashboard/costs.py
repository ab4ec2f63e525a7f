"""What a run's page of costs shows: totals and shares, what a step and a point of reward cost, days, and limits."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Sum
from django.db.models.functions import Mod, TruncDay

from apps.buffer.models import Experience
from apps.dashboard.bought import ACCEPTED
from apps.dashboard.trends import Drawing, drawing_of
from apps.runs.budget import Budget
from apps.runs.costs import CPU, GPU, METRICS, ROLES, Cost
from apps.runs.models import Metric, Run, Usage

POINTS = 200
ENDS = 5  # updates at either end whose mean reward is compared
DAYS_SHOWN = 14
LEAST_GAIN = 0.01  # of reward: what a smaller gain costs by the point says nothing
WORDS = {
    "gpu_hours": (
        "GPU hours",
        "Of all roles, evaluations included; seconds in which an engine, a scorer's model or an update was at work.",
    ),
    "cpu_hours": ("CPU hours", "Of all roles; the processor's time of their processes, all threads together."),
    "tokens": ("tokens sampled", "Those of finished replies, with what was heard between their turns."),
    "judge_tokens": ("tokens of judges", "Read and written by the models that are asked for rewards."),
    "people_hours": ("hours of people", "In a visible tab until each decision; the simulated rater's are none."),
    "money": ("money", "All of it at the project's prices of today."),
}


@dataclass(frozen=True)
class Bar:
    """A limit of the budget, or an amount without one. `used` and `most` in the field's unit."""

    field: str
    title: str
    why: str
    used: float
    most: float | None
    typed: str = ""
    wrong: str = ""

    @property
    def share(self) -> float:
        return self.used / self.most if self.most else 0.0


@dataclass(frozen=True)
class Role:
    name: str
    gpu_hours: float
    cpu_hours: float


@dataclass(frozen=True)
class Gain:
    """Mean reward of the first and of the newest updates."""

    first: float
    last: float

    @property
    def points(self) -> float:
        """Hundredths of a reward."""
        return 100 * (self.last - self.first)


@dataclass(frozen=True)
class Unit:
    """What one of something cost: an update, an accepted experience, a point of reward."""

    name: str
    why: str
    count: float
    values: dict[str, float]


def bars_of(run: Run, cost: Cost) -> list[Bar]:
    limits = run.settings.budget.model_dump() if run.settings.budget else {}
    spent = cost.spent
    return [Bar(name, *WORDS[name], spent[name], limits.get(name)) for name in Budget.model_fields]


def roles_of(cost: Cost) -> list[Role]:
    found = [Role(role, cost.of(f"{role}.{GPU}") / 3600, cost.of(f"{role}.{CPU}") / 3600) for role in ROLES]
    return [role for role in found if role.gpu_hours or role.cpu_hours]


def units_of(run: Run, cost: Cost, gain: Gain | None, is_open: bool) -> list[Unit]:
    """Of what there is some of; for who judges blind, without what tells how replies were judged."""
    wanted = [("an update", "Committed updates, skipped ones included.", float(run.step))]
    if is_open:
        census = Experience.objects.census(run)
        accepted = sum(census[state] for state in ACCEPTED)
        why = "Rows that came through the pipeline and were not dropped."
        wanted.append(("an accepted experience", why, float(accepted)))
    if gain and gain.points >= 100 * LEAST_GAIN:
        why = f"Hundredths of mean reward gained, from {gain.first:.2f} in the first {ENDS} updates to {gain.last:.2f} in the last."
        wanted.append(("a point of reward", why, gain.points))
    spent = cost.spent
    return [
        Unit(name, why, count, {field: spent[field] / count for field in METRICS.values()}) for name, why, count in wanted if count
    ]


def gain_of(run: Run) -> Gain | None:
    """None before there are two sets of updates to compare."""
    rewards = Metric.objects.filter(run=run, name="reward_mean")
    first = list(rewards.filter(step__lte=ENDS).values_list("value", flat=True))
    last = list(rewards.filter(step__gt=max(ENDS, run.step - ENDS)).values_list("value", flat=True))
    return Gain(statistics.fmean(first), statistics.fmean(last)) if first and last else None


def against_cost(run: Run, field: str) -> Drawing | None:
    """The mean reward of updates over what was used until each; every nth update of a long run, and the newest."""
    name = next(metric for metric, known in METRICS.items() if known == field)
    wide = max(1, run.step // POINTS)
    rows = Metric.objects.filter(run=run, name__in=(name, "reward_mean")).annotate(rest=Mod(F("step"), wide))
    found: dict[int, dict[str, float]] = defaultdict(dict)
    for step, known, value in rows.filter(rest=run.step % wide).values_list("step", "name", "value"):
        found[step][known] = value
    pairs = [(row[name], row["reward_mean"]) for _, row in sorted(found.items()) if len(row) == 2]
    is_moving = len({used for used, _ in pairs}) > 1
    return drawing_of({"reward_mean": pairs}) if is_moving else None


def measures_of(run: Run, cost: Cost) -> list[str]:
    """What the reward may be drawn against: cumulative figures that its updates recorded, money first."""
    order = ["money", "gpu_hours", "cpu_hours", "tokens", "people_hours", "judge_tokens"]
    known = set(Metric.objects.filter(run=run, step=run.step, name__in=list(METRICS)).values_list("name", flat=True))
    return [field for field in order if any(known_name in known for known_name, of in METRICS.items() if of == field)]


@dataclass(frozen=True)
class Day:
    at: datetime
    cost: Cost


def days_of(run: Run, cost: Cost) -> Sequence[Day]:
    """The newest days on which it, or an evaluation of its versions, used something."""
    concerned = [run.pk, *Run.objects.filter(evaluates__run=run).values_list("pk", flat=True)]
    rows = Usage.objects.filter(run__in=concerned).order_by().annotate(day=TruncDay("hour")).values_list("day", "kind")
    found: dict[datetime, dict[str, float]] = defaultdict(dict)
    for day, kind, amount in rows.annotate(total=Sum("amount")):
        found[day][kind] = amount
    return [Day(day, Cost(found[day], cost.prices)) for day in sorted(found, reverse=True)[:DAYS_SHOWN]]
