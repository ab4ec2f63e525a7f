"""The charts page of a run: one chart of any metrics, as large as the window."""

from dataclasses import dataclass
from urllib.parse import parse_qsl

from django import forms

from apps.dashboard.charts import Chart, Charts, choose_charts
from apps.dashboard.metric_descriptions import describe_metric
from apps.dashboard.overview import (
    NO_NAMES,
    PLACE,
    SKETCHED,
    SPREADS,
    ChartQuery,
    Sketch,
    sketch_chart,
)
from apps.runs.downsampling import thinned
from apps.runs.models import Run, metric_names

NAMING = ("names", "chart")  # fields of the URL that say which metrics


class OwnChartQuery(ChartQuery):
    """The query of the charts page: `names` are the metrics, `log` asks for a log scale."""

    log = forms.BooleanField(required=False)
    singles = (*PLACE, "log")
    lists = ("names",)

    @property
    def is_log(self) -> bool:
        return bool(self.cleaned_data.get("log"))


@dataclass(frozen=True)
class Pick:
    """A metric that the chart can show."""

    name: str
    title: str
    why: str
    is_shown: bool


@dataclass(frozen=True)
class OwnChart:
    """The chart, the metrics to choose from, and what is wrong with the query."""

    sketch: Sketch
    titles: list[tuple[str, str]]  # of the metrics drawn as lines
    picks: list[Pick]
    kept: list[tuple[str, str]]  # part of the URL that stays when other metrics are chosen
    wrong: list[str]


def build_own_chart(run: Run, query: OwnChartQuery, newest: dict[str, float]) -> OwnChart:
    """Return the chart of the metrics that are asked for; without any, the first of the run."""
    plan = run.settings
    recorded = metric_names(run)
    charts = choose_charts(plan.algorithm, recorded, bool(plan.people.per_group))
    wrong = query.problems
    chart = _chart(charts, query, recorded, wrong)
    window = query.window(chart.names)
    until = run.step if window.until is None else min(window.until, run.step)
    thin = thinned(run, chart.names, window.after, until, SKETCHED)
    titles = charts.titles
    spreads = set(SPREADS.values())
    offered = [
        *(name for name in titles if name in recorded),
        *sorted(set(recorded) - titles.keys()),
    ]
    why = {
        name: listed_chart.why
        for listed_chart in (charts.large, *charts.small)
        for name in listed_chart.names
    }
    picks = [
        Pick(
            name=name,
            title=titles.get(name, name.replace("_", " ")),
            why=why.get(name) or describe_metric(name),
            is_shown=name in chart.names,
        )
        for name in offered
        if name not in spreads
    ]
    return OwnChart(
        sketch=sketch_chart(chart, thin, newest, 1000),
        titles=[(pick.name, pick.title) for pick in picks if pick.is_shown],
        picks=picks,
        kept=[(name, value) for name, value in parse_qsl(query.address) if name not in NAMING],
        wrong=wrong,
    )


def _chart(charts: Charts, query: OwnChartQuery, recorded: list[str], wrong: list[str]) -> Chart:
    """Return the chart that is asked for, and add what was not found to `wrong`."""
    curated = {chart.key: chart for chart in (charts.large, *charts.small)}
    requested_names = query.given("names", NO_NAMES)
    if not requested_names:
        key = query.given("chart", charts.large.key)
        if key not in curated:
            wrong.append(f"chart: {key!r} not found")
        return curated.get(key, charts.large)
    for chart in curated.values():
        if set(requested_names) == set(chart.names):
            return chart
    wrong += [
        f"names: metric {name!r} not found" for name in requested_names if name not in recorded
    ]
    names = tuple(name for name in requested_names if name in recorded)
    if not names:
        return charts.large
    return Chart("own", _title(names, charts.titles), names, words=names)


def _title(names: tuple[str, ...], titles: dict[str, str]) -> str:
    lines = [name for name in names if name not in SPREADS.values()] or names
    if len(lines) == 1:
        return titles.get(lines[0], lines[0].replace("_", " "))
    return f"{len(lines)} metrics"
