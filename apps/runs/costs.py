"""Costs of runs: amounts by kind from their rows, and the hours and money computed from these."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from django.db.models import Case, F, FloatField, OuterRef, Q, QuerySet, Subquery, Sum, Value, When
from django.db.models.functions import Coalesce

from apps.runs.models import Prices, Run, UsageTotal

ROLES = ("explorer", "scorer", "refiner", "trainer")
GPU = "gpu_s"
CPU = "cpu_s"
SAMPLED = "tokens.sampled"
PROMPTS = "tokens.prompts"
PEOPLE = "people.s"
JUDGE_CALLS = "judge.calls"
JUDGE_READ = "judge.tokens_in"
JUDGE_WROTE = "judge.tokens_out"
KINDS = {
    **{f"{role}.{GPU}": f"seconds of a GPU held by the {role}" for role in ROLES},
    **{f"{role}.{CPU}": f"seconds of processors, by the {role}" for role in ROLES},
    SAMPLED: "tokens of finished replies",
    PROMPTS: "tokens of their prompts",
    PEOPLE: "seconds of people, in a visible tab until each decision",
    JUDGE_CALLS: "requests that judges answered",
    JUDGE_READ: "tokens that judges read",
    JUDGE_WROTE: "tokens that judges wrote",
}
# Totals of a run, kept as metrics with each of its steps.
METRICS = {
    "cost_gpu_hours": "gpu_hours",
    "cost_cpu_hours": "cpu_hours",
    "cost_tokens": "tokens",
    "cost_judge_tokens": "judge_tokens",
    "cost_people_hours": "people_hours",
    "cost_money": "money",
}


@dataclass(frozen=True)
class Cost:
    """All that a run and its evaluations have used; `money` by the project's current prices.

    `for_evaluations`: what of it the evaluations used.
    """

    amounts: Mapping[str, float] = field(default_factory=dict)
    prices: Prices = field(
        default_factory=lambda: Prices(
            gpu_hour=0.0, cpu_hour=0.0, judge_tokens=0.0, person_hour=0.0
        )
    )
    for_evaluations: Mapping[str, float] = field(default_factory=dict)

    def of(self, *kinds: str) -> float:
        return sum(self.amounts.get(kind, 0.0) for kind in kinds)

    @property
    def gpu_hours(self) -> float:
        return self.of(*(f"{role}.{GPU}" for role in ROLES)) / 3600

    @property
    def cpu_hours(self) -> float:
        return self.of(*(f"{role}.{CPU}" for role in ROLES)) / 3600

    @property
    def tokens(self) -> float:
        return self.of(SAMPLED)

    @property
    def judge_calls(self) -> float:
        return self.of(JUDGE_CALLS)

    @property
    def judge_tokens(self) -> float:
        return self.of(JUDGE_READ, JUDGE_WROTE)

    @property
    def people_hours(self) -> float:
        return self.of(PEOPLE) / 3600

    @property
    def of_evaluations(self) -> "Cost":
        return Cost(self.for_evaluations, self.prices)

    @property
    def parts(self) -> dict[str, float]:
        """Return the costs by purpose."""
        prices = self.prices
        return {
            "GPUs": self.gpu_hours * prices.gpu_hour,
            "processors": self.cpu_hours * prices.cpu_hour,
            "judges": self.judge_tokens / 1000 * prices.judge_tokens,
            "people": self.people_hours * prices.person_hour,
        }

    @property
    def money(self) -> float:
        return sum(self.parts.values())

    @property
    def currency(self) -> str:
        return self.prices.currency

    @property
    def has_prices(self) -> bool:
        return self.prices.are_set

    @property
    def spent(self) -> dict[str, float]:
        """Return the amounts used, by the fields of apps.runs.budget.Budget."""
        return {name: getattr(self, name) for name in METRICS.values()}


def load_costs(runs: Iterable[Run]) -> dict[int, Cost]:
    """Return the cost of each run, by run id.

    Two queries, of a few rows for each run, however old the run is.
    """
    runs = list(runs)
    amounts: dict[int, dict[str, float]] = defaultdict(dict)
    evaluating: dict[int, dict[str, float]] = defaultdict(dict)
    rows = UsageTotal.objects.filter(run__in=[run.pk for run in runs])
    for run, kind, own_amount, evaluations in rows.values_list("run", "kind", "own", "evaluations"):
        amounts[run][kind] = own_amount + evaluations
        if evaluations:
            evaluating[run][kind] = evaluations
    prices = {
        price.project_id: price
        for price in Prices.objects.filter(project__in={run.project_id for run in runs})
    }
    free = Cost().prices
    return {
        run.pk: Cost(amounts[run.pk], prices.get(run.project_id, free), evaluating[run.pk])
        for run in runs
    }


def with_cost(runs: QuerySet[Run]) -> QuerySet[Run]:
    """Annotate the runs with `cost`, to sort them by it; 0 for a run that used nothing.

    The cost is money if the project has prices, otherwise device hours.
    """
    price = {
        name: F(f"project__prices__{name}")
        for name in ("gpu_hour", "cpu_hour", "judge_tokens", "person_hour")
    }
    are_set = Q(*(Q(**{f"project__prices__{name}__gt": 0}) for name in price), _connector=Q.OR)
    unpriced = {"gpu_hour": 1.0, "cpu_hour": 1.0}

    def unit_price(name: str, amounts: float) -> Case:
        """Return the price of one unit, of which `amounts` units are paid for together."""
        return Case(
            When(are_set, then=price[name] / amounts),
            default=Value(unpriced.get(name, 0.0) / amounts),
        )

    runs = runs.annotate(
        gpu_s=unit_price("gpu_hour", 3600),
        cpu_s=unit_price("cpu_hour", 3600),
        judged=unit_price("judge_tokens", 1000),
        person_s=unit_price("person_hour", 3600),
    )
    kinds = {f".{GPU}": "gpu_s", f".{CPU}": "cpu_s"}
    whens = [When(kind__endswith=end, then=OuterRef(name)) for end, name in kinds.items()]
    whens += [
        When(kind__in=[JUDGE_READ, JUDGE_WROTE], then=OuterRef("judged")),
        When(kind=PEOPLE, then=OuterRef("person_s")),
    ]
    amount = (F("own") + F("evaluations")) * Case(
        *whens, default=Value(0.0), output_field=FloatField()
    )
    total = (
        UsageTotal.objects.filter(run=OuterRef("pk"))
        .values("run")
        .annotate(total=Sum(amount))
        .values("total")
    )
    return runs.annotate(cost=Coalesce(Subquery(total), Value(0.0)))


def load_spending(runs: Iterable[Run]) -> dict[int, dict[str, float]]:
    """Return what each run with a budget has used, by run id and field of the budget."""
    limited = [run for run in runs if run.config.get("budget")]
    return {pk: cost.spent for pk, cost in load_costs(limited).items()} if limited else {}


def used_up(run: Run) -> str:
    """Return in words which budget limits the run and its evaluations have reached.

    Return "" if no limit is reached, if there is no budget, or if the run has ended.
    """
    if run.state in Run.ENDED or not run.config.get("budget"):
        return ""
    budget = run.settings.budget
    assert budget is not None
    spent = load_costs([run])[run.pk].spent
    limits = budget.model_dump()
    over = [field for field, limit in limits.items() if limit is not None and spent[field] >= limit]
    return (
        f"the budget of {run.slug!r} is used up ({', '.join(over)}): raise it on the page Cost"
        if over
        else ""
    )


def cost_metrics(run: Run) -> dict[str, float]:
    """Return a run's totals as metrics of a step; those that stay at 0 are left out."""
    spent = load_costs([run])[run.pk].spent
    return {name: spent[field] for name, field in METRICS.items() if spent[field]}
