"""Points of a run's curves: a window of steps, downsampled in the database, on three axes."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from django.db.models import OuterRef, QuerySet, Subquery

from apps.accounts.models import AuditEntry
from apps.dashboard.differences import list_field_differences
from apps.runs.downsampling import Bucket, DownsampledCurves, thinned
from apps.runs.models import Metric, Run, TrainStep

POINTS = 256
DIGITS = 6  # significant digits of a drawn value
MAX_WORDS_LENGTH = 24  # longest value in a change's mark: guidelines are pages long
MARKS_SHOWN = 50
ACTS_LOOKED_THROUGH = 5_000  # newest audit entries of a project that are searched
# Marked actions: their names in the audit log, and the words of the mark.
ACTIONS = {
    "run paused": "paused",
    "run resumed": "resumed",
    "run stopped": "stopped",
    "checkpoint requested": "checkpoint requested",
    "groups dropped": "groups dropped",
}
AXES = {"step": "optimizer step", "version": "weight version", "time": "wall clock"}
Series = dict[str, list]


@dataclass(frozen=True)
class Window:
    """A window of curves to draw.

    It covers `after` < step <= `until`; `points` is the largest number of buckets, `axis` one of
    AXES.
    """

    names: frozenset[str] | set[str] = field(default_factory=frozenset)
    after: int = 0
    until: int | None = None
    points: int = POINTS
    axis: str = "step"


def curves_document(run: Run, window: Window) -> dict:
    """Return the curves of a window as a document.

    It is {"step": the run's, "wide": steps per bucket, "steps": the last step of each, "x": its
    place on the axis, "series": {name: {"y": means, "low": minima, "high": maxima}}}, with null
    where a bucket has no value. Without low and high every value is drawn. On the axis of versions,
    each version is one bucket; so an answer may begin before `after`, and replaces what a page has
    from its first x on.
    """
    until = run.step if window.until is None else window.until
    after = window.after
    if window.axis == "version":
        after -= after % run.settings.sync_interval
    downsampled = thinned(run, window.names, after, until, window.points)
    places = _places(run, downsampled, window.axis)
    steps = [step for step in downsampled.steps if step in places]
    if window.axis == "version":
        downsampled, steps, places = _by_version(downsampled, steps, places)
    banded = any(
        bucket.count > 1 for buckets in downsampled.series.values() for bucket in buckets.values()
    )
    return {
        "step": run.step,
        "wide": downsampled.wide,
        "since": downsampled.since,
        "until": downsampled.until,
        "steps": steps,
        "x": [places[step] for step in steps],
        "series": {
            name: _columns(buckets, steps, banded) for name, buckets in downsampled.series.items()
        },
    }


def _places(run: Run, downsampled: DownsampledCurves, axis: str) -> dict[int, float]:
    """Return the place on the axis of each step for which it is known."""
    if axis == "step":
        return {step: step for step in downsampled.steps}
    rows = run.steps.filter(number__in=downsampled.steps)
    if axis == "version":
        return dict(rows.values_list("number", "version"))
    return {
        number: round(at.timestamp(), 1)
        for number, at in rows.values_list("number", "committed_at")
        if at
    }


def _by_version(
    downsampled: DownsampledCurves, steps: list[int], places: Mapping[int, float]
) -> tuple[DownsampledCurves, list[int], dict[int, float]]:
    """Merge the buckets of each version, under its last step."""
    last = {places[step]: step for step in steps}
    series: dict[str, dict[int, Bucket]] = {}
    for name, buckets in downsampled.series.items():
        merged: dict[int, Bucket] = {}
        for step, bucket in buckets.items():
            if step in places:
                place = last[places[step]]
                merged[place] = merged[place] + bucket if place in merged else bucket
        series[name] = merged
    return (
        DownsampledCurves(downsampled.since, downsampled.until, downsampled.wide, series),
        list(last.values()),
        {step: x for x, step in last.items()},
    )


def _columns(buckets: Mapping[int, Bucket], steps: list[int], banded: bool) -> Series:
    ordered = [buckets.get(step) for step in steps]
    parts = {"y": "mean", "low": "low", "high": "high"} if banded else {"y": "mean"}
    return {
        key: round_for_chart([bucket and getattr(bucket, part) for bucket in ordered])
        for key, part in parts.items()
    }


def round_for_chart(values: Iterable[float | None]) -> list[float | None]:
    """Round values to the number of digits that charts can show."""
    exact = np.array(values, dtype=float)
    with np.errstate(all="ignore"):
        places = DIGITS - 1 - np.floor(np.log10(np.abs(exact)))
        up = 10.0 ** np.maximum(places, 0)
        down = 10.0 ** np.maximum(-places, 0)  # powers that a float holds exactly
        rounded = np.round(exact * up / down) / up * down
    numbers = np.where(
        np.isfinite(rounded), rounded, exact
    ).tolist()  # 0, and values too large or too small to be scaled
    return [None if value != value else value for value in numbers]


def curves(
    run: Run, names: Iterable[str], after: int = 0, points: int = POINTS
) -> dict[str, Series]:
    """Return {name: {"x": [step], "y": [value]}} of the steps above `after`.

    If there are more steps than `points`, each bucket of steps gives its minimum and its maximum:
    no peak is lost and the answer does not grow with the run.
    """
    series_by_name: dict[str, Series] = {}
    thin = thinned(run, names, after, run.step, points)
    for name, buckets in thin.series.items():
        series = series_by_name[name] = {"x": [], "y": []}
        for step, bucket in buckets.items():
            if bucket.low != bucket.high:
                series["x"].append((step - 1) // thin.wide * thin.wide + 1)
                series["y"].append(bucket.low)
            series["x"].append(step)
            series["y"].append(bucket.high)
    return series_by_name


def list_changes(
    run: Run, axis: str = "step", since: int = 0, until: int | None = None
) -> list[dict]:
    """Return what people changed in this window of steps, the newest first.

    Each is {"step": the step it was at, "x": on the axis, "words"}: changes of the configuration,
    and entries of the audit log among the newest of the project (paused, resumed, stopped,
    checkpoint requested, groups dropped).
    """
    first = _moment(run, since)
    window_end = _moment(run, until) if until is not None and until < run.step else None
    in_window = {name: at for name, at in (("at__gte", first), ("at__lte", window_end)) if at}
    before = TrainStep.objects.filter(run=run, committed_at__lte=OuterRef("at")).order_by(
        "-committed_at"
    )
    step = _first(before, "number")
    version = _first(before, "version")
    changes = run.topic.events.filter(kind="config_changed", **in_window).order_by("-pk")
    events = changes.annotate(step=step, version=version)[:MARKS_SHOWN]
    entries = marked_entries(run, in_window).annotate(step=step, version=version)[:MARKS_SHOWN]
    rows = [
        *((row.at, row.step, row.version, _difference(row.payload)) for row in events),
        *((row.at, row.step, row.version, _with_reason(row)) for row in entries),
    ]
    rows.sort(key=lambda row: row[0], reverse=True)
    return [
        {
            "step": number or 0,
            "x": {
                "step": number or 0,
                "version": newest or 0,
                "time": round(at.timestamp(), 1),
            }[axis],
            "words": words,
        }
        for at, number, newest, words in rows[:MARKS_SHOWN]
    ]


def marked_entries(run: Run, in_window: Mapping[str, datetime]) -> QuerySet[AuditEntry]:
    """Return the run's marked actions, the newest first; `during` is a filter on `at`.

    Only the newest entries of the project are searched.
    """
    entries = AuditEntry.objects.filter(project=run.project_id).order_by("-pk")
    # As a number: with a subquery, the planner reads the whole log.
    oldest = entries.values_list("pk", flat=True)[ACTS_LOOKED_THROUGH - 1 : ACTS_LOOKED_THROUGH]
    if edge := next(iter(oldest), None):
        entries = entries.filter(pk__gte=edge)
    return entries.filter(target=run.address, action__in=ACTIONS, **in_window)


def _first(rows: QuerySet, column: str) -> Subquery:
    return Subquery(rows.values(column)[:1])


def _moment(run: Run, step: int) -> datetime | None:
    """Return when the step was committed; None before the first."""
    return (
        run.steps.filter(number=step).values_list("committed_at", flat=True).first()
        if step
        else None
    )


def _difference(payload: dict) -> str:
    """Format the changed fields: people.simulated: on → off."""
    differences = list_field_differences(payload["before"], payload["after"])
    return ", ".join(
        f"{difference.address} {_cut(difference.before)} → {_cut(difference.after)}"
        for difference in differences
    )


def describe_entry(entry: AuditEntry) -> str:
    """Return a marked act in words, without its reason."""
    words = ACTIONS[entry.action]
    count = entry.details.get("count")
    if not isinstance(count, int):
        return words
    return f"{count:,} {words.replace('groups', 'group') if count == 1 else words}"


def _with_reason(entry: AuditEntry) -> str:
    reason = entry.details.get("reason", "")
    words = describe_entry(entry)
    return f"{words}: {_cut(reason)}" if reason else words


def _cut(words: str) -> str:
    return words if len(words) <= MAX_WORDS_LENGTH else f"{words[:MAX_WORDS_LENGTH]}…"


def recent_rewards(runs: Iterable[Run], steps: int = 80) -> dict[int, list[float]]:
    """Return the mean rewards of each run's last steps, oldest first, in one query.

    They are drawn as sparklines.
    """
    rewards: dict[int, list[float]] = defaultdict(list)
    recent = Metric.objects.of_last_steps(runs, steps).filter(name="reward_mean")
    for run_id, value in recent.order_by("run", "step").values_list("run_id", "value"):
        rewards[run_id].append(value)
    return rewards


def polyline(values: list[float], width: int = 96, height: int = 22) -> str:
    """Return the points attribute of a sparkline, scaled to the range of the values."""
    if len(values) < 2:
        return ""
    low = min(values)
    high = max(values)
    spread = (high - low) or 1.0
    return " ".join(
        f"{n * width / (len(values) - 1):.1f},"
        f"{height - 2 - (value - low) / spread * (height - 4):.1f}"
        for n, value in enumerate(values)
    )
