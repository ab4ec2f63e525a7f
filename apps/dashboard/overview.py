"""The charts of a run's page, by its URL: a large one, small multiples, and chosen ones."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar
from urllib.parse import parse_qsl, urlencode

from django import forms
from django.http import QueryDict

from apps.dashboard.charts import Chart, choose_charts
from apps.dashboard.curves import AXES, Window
from apps.dashboard.metric_descriptions import describe_metric
from apps.runs.downsampling import DownsampledCurves, thinned
from apps.runs.models import Run, metric_names

T = TypeVar("T")
MAX_INTEGER = 2**31 - 1
MAX_NAMES = 60
NO_NAMES: Sequence[str] = ()
NAME = re.compile(r"[^\s\x00-\x1f]{1,60}")
PLACE = (
    "x",
    "from_step",
    "to_step",
    "smooth",
    "chart",
)  # fields with a single value in the URL
SKETCHED = 60  # points of a curve that the server draws
SPREADS = {
    "reward_mean": "reward_std",
    "reward_human": "reward_human_std",
}  # drawn as a band around the other line


class Names(forms.Field):
    """A form field for metric names, given as a repeated parameter: `also=loss&also=tokens`."""

    widget = forms.MultipleHiddenInput

    def clean(self, value: list[str] | None) -> list[str]:
        names = list(dict.fromkeys(value or ()))
        if len(names) > MAX_NAMES:
            raise forms.ValidationError(f"Select at most {MAX_NAMES} metrics.")
        if wrong := next((name for name in names if not NAME.fullmatch(name)), None):
            raise forms.ValidationError(f"{wrong[:60]!r} is not a metric name.")
        return names


class ChartQuery(forms.Form):
    """The query of a run's page, or of its points.

    Steps are counted from 1; both ends are drawn.
    """

    x = forms.ChoiceField(choices=list(AXES.items()), required=False)
    from_step = forms.IntegerField(min_value=1, max_value=MAX_INTEGER, required=False)
    to_step = forms.IntegerField(min_value=1, max_value=MAX_INTEGER, required=False)
    after = forms.IntegerField(min_value=0, max_value=MAX_INTEGER, required=False)
    points = forms.IntegerField(min_value=10, max_value=2_000, required=False)
    smooth = forms.FloatField(min_value=0, max_value=0.99, required=False)
    chart = forms.CharField(max_length=60, required=False)
    names = Names(required=False)
    also = Names(required=False)
    singles: tuple[str, ...] = PLACE
    lists: tuple[str, ...] = ("also",)

    def __init__(self, query: QueryDict) -> None:
        super().__init__(query)
        self.is_valid()

    def clean(self) -> dict:
        super().clean()
        data = self.cleaned_data
        since = data.get("from_step")
        until = data.get("to_step")
        if since and until and since > until:
            self.add_error("to_step", "The last step must not be before the first.")
        return data

    def given(self, name: str, otherwise: T) -> T:
        """Return the field's value, or else `otherwise`, a value of the same type."""
        value = self.cleaned_data.get(name)
        return otherwise if value in (None, "", []) else value

    @property
    def axis(self) -> str:
        return self.given("x", "step")

    @property
    def is_zoomed(self) -> bool:
        return bool(self.cleaned_data.get("from_step") or self.cleaned_data.get("to_step"))

    @property
    def address(self) -> str:
        """Return the valid part of the query as a query string."""
        sound = [
            (name, self.data[name])
            for name in self.singles
            if name not in self.errors and self.data.get(name)
        ]
        listed = [(field, name) for field in self.lists for name in self.given(field, NO_NAMES)]
        return urlencode([*sound, *listed])

    @property
    def problems(self) -> list[str]:
        """Return the error messages, each with the name of its field."""
        return [f"{name}: {' '.join(map(str, words))}" for name, words in self.errors.items()]

    def window(self, names: Iterable[str]) -> Window:
        after = max(self.given("after", 0), self.given("from_step", 1) - 1)
        window = Window(frozenset(names), after, self.cleaned_data.get("to_step"), axis=self.axis)
        return replace(window, points=self.given("points", window.points))


@dataclass(frozen=True)
class Sketch:
    """A chart with what the server draws of it: a line per metric, and the newest values."""

    chart: Chart
    lines: list[tuple[str, str]]  # name, points of an SVG polyline
    newest: dict[str, float]

    @property
    def lead(self) -> float | None:
        return self.newest.get(self.chart.names[0])


@dataclass(frozen=True)
class Overview:
    """The charts; `others` are metrics of the run that are shown only when chosen.

    `first` is the chart that is large by default.
    """

    first: Chart
    large: Sketch
    small: list[Sketch]
    picked: list[Sketch]
    others: list[tuple[str, str]]  # with a description of each
    kept: list[
        tuple[str, str]
    ]  # part of the URL that stays when another series or window is chosen
    wrong: list[str]


def build_charts_overview(run: Run, query: ChartQuery, newest: dict[str, float]) -> Overview:
    """Return the charts in two queries.

    The chart that is asked for is large; else the reward, or the loss.
    """
    plan = run.settings
    recorded = metric_names(run)
    charts = choose_charts(plan.algorithm, recorded, bool(plan.people.per_group))
    also = query.given("also", NO_NAMES)
    picked = [_chart_of(name) for name in also if name in recorded]
    every = {chart.key: chart for chart in (charts.large, *charts.small, *picked)}
    requested = query.given("chart", charts.large.key)
    large = every.get(requested, charts.large)
    names = {name for chart in every.values() for name in chart.names}
    window = query.window(names)
    until = run.step if window.until is None else min(window.until, run.step)
    thin = thinned(run, names, window.after, until, SKETCHED)
    sketch = {
        key: sketch_chart(chart, thin, newest, 1000 if chart is large else 220)
        for key, chart in every.items()
    }
    curated = (charts.large, *charts.small)
    wrong = [f"also: metric {name!r} not found" for name in also if name not in recorded]
    if requested not in every:
        wrong.append(f"chart: {requested!r} not found")
    return Overview(
        first=charts.large,
        large=sketch[large.key],
        small=[sketch[chart.key] for chart in curated if chart is not large],
        picked=[sketch[chart.key] for chart in picked if chart is not large],
        others=[(name, describe_metric(name)) for name in recorded if name not in charts.names],
        kept=parse_qsl(query.address),
        wrong=query.problems + wrong,
    )


def _chart_of(metric: str) -> Chart:
    return Chart(f"also-{metric}", metric.replace("_", " "), (metric,), describe_metric(metric))


def sketch_chart(
    chart: Chart, thin: DownsampledCurves, newest: dict[str, float], width: int
) -> Sketch:
    """Return what the server draws of a chart, `width` units wide."""
    spreads = set(SPREADS.values())
    curves = {
        name: thin.series[name]
        for name in chart.names
        if name in thin.series and name not in spreads
    }
    values = [bucket.mean for buckets in curves.values() for bucket in buckets.values()]
    lines = []
    if values and thin.until > thin.since:
        low = min(values)
        high = max(values)
        for name, buckets in curves.items():
            points = [
                ((step - thin.since) / (thin.until - thin.since), bucket.mean)
                for step, bucket in buckets.items()
            ]
            lines.append((name, _points(points, low, high, width, 240 if width > 500 else 64)))
    return Sketch(chart, lines, {name: newest[name] for name in chart.names if name in newest})


def _points(
    points: list[tuple[float, float]], low: float, high: float, width: int, height: int
) -> str:
    room = 4
    spread = (high - low) or 1.0
    return " ".join(
        f"{x * width:.1f},{height - room - (y - low) / spread * (height - 2 * room):.1f}"
        for x, y in points
    )
