"""The metrics of one step, with their change from the step before and their usual range."""

import statistics
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from apps.dashboard.charts import choose_charts
from apps.dashboard.metric_descriptions import describe_metric
from apps.runs.models import Metric, Run, metric_names

USUAL_STEPS = 20  # steps before this one that show what is usual
MIN_STEPS = 8  # with fewer values, nothing is called unusual
UNUSUAL = 3.0  # standard deviations


@dataclass(frozen=True)
class StepMetric:
    """A metric at one step; `before` is its value one step earlier, None if there is none.

    `deviations` is the distance from the mean of the steps before, in their standard deviations;
    None if too few steps have a value or all values are equal.
    """

    name: str
    title: str
    why: str
    value: float
    before: float | None
    deviations: float | None

    @property
    def change(self) -> float | None:
        return None if self.before is None else self.value - self.before

    @property
    def is_unusual(self) -> bool:
        return self.deviations is not None and abs(self.deviations) >= UNUSUAL


@dataclass(frozen=True)
class StepMetrics:
    """The metrics of a step: those of the run's charts, and the others."""

    main: list[StepMetric]
    others: list[StepMetric]

    @property
    def unusual(self) -> list[StepMetric]:
        """Return the unusual metrics, the most unusual first."""
        unusual = [metric for metric in (*self.main, *self.others) if metric.is_unusual]
        return sorted(unusual, key=lambda metric: -abs(metric.deviations or 0.0))


def metrics_of_step(run: Run, number: int) -> StepMetrics:
    """Return the metrics of the step in two queries, in the order of the run's charts."""
    recorded = metric_names(run)
    plan = run.settings
    charts = choose_charts(plan.algorithm, recorded, bool(plan.people.per_group))
    values = _values(run, recorded, number)
    why = {name: chart.why for chart in (*charts.small, charts.large) for name in chart.names}
    main = {
        name: _metric(name, title, why[name], values[name], number)
        for name, title in charts.titles.items()
        if number in values[name]
    }
    other_metrics = [
        _metric(name, name.replace("_", " "), describe_metric(name), values[name], number)
        for name in recorded
        if name not in main and number in values[name]
    ]
    return StepMetrics(list(main.values()), other_metrics)


def _values(run: Run, names: Collection[str], number: int) -> dict[str, dict[int, float]]:
    """Return {metric: {step: value}} of the step and those before it."""
    rows = Metric.objects.filter(
        run=run, name__in=names, step__range=(number - USUAL_STEPS, number)
    )
    values: dict[str, dict[int, float]] = defaultdict(dict)
    for name, step, value in rows.values_list("name", "step", "value"):
        values[name][step] = value
    return values


def _metric(name: str, title: str, why: str, values: dict[int, float], number: int) -> StepMetric:
    earlier = [value for step, value in values.items() if step < number]
    return StepMetric(
        name=name,
        title=title,
        why=why,
        value=values[number],
        before=values.get(number - 1),
        deviations=_deviations(values[number], earlier),
    )


def _deviations(value: float, earlier: Collection[float]) -> float | None:
    if len(earlier) < MIN_STEPS:
        return None
    mean = statistics.fmean(earlier)
    spread = statistics.stdev(earlier)
    # Rounding alone makes a spread of equal values.
    if spread <= 1e-9 * max(1.0, abs(mean)):
        return None
    return (value - mean) / spread
