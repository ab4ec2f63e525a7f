"""A run's curves as points: a window of its steps, thinned in the database to a few hundred, on one of three x axes."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from django.db.models import OuterRef, QuerySet, Subquery

from apps.accounts.models import AuditEntry
from apps.dashboard.differences import differences
from apps.runs.models import Metric, Run, TrainStep
from apps.runs.thinning import Bucket, Thinned, thinned

POINTS = 256
DIGITS = 6  # of a value that is drawn
LONGEST_WORDS = 24  # of a value in the mark of a change: guidelines are pages long
MARKS_SHOWN = 50
ACTS_LOOKED_THROUGH = 5_000  # of a project
# Acts that are marked, as the audit log calls them, and in the words of a mark.
ACTS = {
    "run paused": "paused", "run resumed": "resumed", "run stopped": "stopped", "checkpoint asked": "checkpoint asked for",
    "groups dropped": "groups dropped",
}  # fmt: skip
AXES = {"step": "optimizer step", "version": "weight version", "time": "wall clock"}
Series = dict[str, list]


@dataclass(frozen=True)
class Window:
    """What somebody wants drawn. `after` < step <= `until`; `points`: how many buckets at most; `axis`: one of AXES."""

    names: frozenset[str] | set[str] = field(default_factory=frozenset)
    after: int = 0
    until: int | None = None
    points: int = POINTS
    axis: str = "step"


def drawn(run: Run, window: Window) -> dict:
    """{"step": the run's, "wide": steps of a bucket, "steps": the last step of each, "x": its place on the axis,
    "series": {name: {"y": means, "low": minima, "high": maxima}}}, null where a bucket has no value.

    Without low and high every value is drawn. Against the version, what one version did is one bucket; so an answer may
    begin before `after`, and what a page has from its first x on is replaced by it.
    """
    until = run.step if window.until is None else window.until
    after = window.after
    if window.axis == "version":
        after -= after % run.settings.sync_interval
    found = thinned(run, window.names, after, until, window.points)
    places = _places(run, found, window.axis)
    steps = [step for step in found.steps if step in places]
    if window.axis == "version":
        found, steps, places = _by_version(found, steps, places)
    banded = any(bucket.count > 1 for buckets in found.series.values() for bucket in buckets.values())
    return {
        "step": run.step, "wide": found.wide, "since": found.since, "until": found.until, "steps": steps,
        "x": [places[step] for step in steps],
        "series": {name: _columns(buckets, steps, banded) for name, buckets in found.series.items()},
    }  # fmt: skip


def _places(run: Run, found: Thinned, axis: str) -> dict[int, float]:
    """Step → its place on the axis; a step of which that is not known has none."""
    if axis == "step":
        return {step: step for step in found.steps}
    rows = run.steps.filter(number__in=found.steps)
    if axis == "version":
        return dict(rows.values_list("number", "version"))
    return {number: round(at.timestamp(), 1) for number, at in rows.values_list("number", "committed_at") if at}


def _by_version(found: Thinned, steps: list[int], places: Mapping[int, float]) -> tuple[Thinned, list[int], dict[int, float]]:
    """Buckets of one version put together, under the last step of it."""
    last = {places[step]: step for step in steps}
    series: dict[str, dict[int, Bucket]] = {}
    for name, buckets in found.series.items():
        merged: dict[int, Bucket] = {}
        for step, bucket in buckets.items():
            if step in places:
                place = last[places[step]]
                merged[place] = merged[place] + bucket if place in merged else bucket
        series[name] = merged
    return Thinned(found.since, found.until, found.wide, series), list(last.values()), {step: x for x, step in last.items()}


def _columns(buckets: Mapping[int, Bucket], steps: list[int], banded: bool) -> Series:
    found = [buckets.get(step) for step in steps]
    parts = {"y": "mean", "low": "low", "high": "high"} if banded else {"y": "mean"}
    return {key: short([bucket and getattr(bucket, part) for bucket in found]) for key, part in parts.items()}


def short(values: Iterable[float | None]) -> list[float | None]:
    """Each in so many digits as are drawn."""
    exact = np.array(values, dtype=float)
    with np.errstate(all="ignore"):
        places = DIGITS - 1 - np.floor(np.log10(np.abs(exact)))
        up, down = 10.0 ** np.maximum(places, 0), 10.0 ** np.maximum(-places, 0)  # powers that a float holds exactly
        rounded = np.round(exact * up / down) / up * down
    told = np.where(np.isfinite(rounded), rounded, exact).tolist()  # 0, and what is too large or too small to be scaled
    return [None if value != value else value for value in told]


def curves(run: Run, names: Iterable[str], after: int = 0, points: int = POINTS) -> dict[str, Series]:
    """{name: {"x": [step], "y": [value]}} of the steps above `after`.

    Where there are more steps than `points`, each bucket of steps gives its minimum and its maximum: no peak is lost
    and no answer grows with the run.
    """
    found: dict[str, Series] = {}
    thin = thinned(run, names, after, run.step, points)
    for name, buckets in thin.series.items():
        series = found[name] = {"x": [], "y": []}
        for step, bucket in buckets.items():
            if bucket.low != bucket.high:
                series["x"].append((step - 1) // thin.wide * thin.wide + 1)
                series["y"].append(bucket.low)
            series["x"].append(step)
            series["y"].append(bucket.high)
    return found


def changes(run: Run, axis: str = "step", since: int = 0, until: int | None = None) -> list[dict]:
    """What was done to the run in this window of steps, the newest: {"step": the step it was at, "x": on the axis, "words"}.

    Changes of its configuration, and what the audit log has of it among the newest acts of its project: paused, resumed,
    stopped, a checkpoint asked for, groups dropped.
    """
    first, past = _moment(run, since), _moment(run, until) if until is not None and until < run.step else None
    during = {"at__gte": first, "at__lte": past}
    during = {name: at for name, at in during.items() if at}
    before = TrainStep.objects.filter(run=run, committed_at__lte=OuterRef("at")).order_by("-committed_at")
    place = {"step": _first(before, "number"), "version": _first(before, "version")}
    events = run.topic.events.filter(kind="config_changed", **during).order_by("-pk").annotate(**place)[:MARKS_SHOWN]
    newest = AuditEntry.objects.filter(project=run.project_id).order_by("-pk").values("pk")[:ACTS_LOOKED_THROUGH]
    acts = AuditEntry.objects.filter(pk__in=newest, target=run.address, act__in=ACTS, **during)
    acts = acts.order_by("-pk").annotate(**place)[:MARKS_SHOWN]
    told = [(event, _difference(event.payload)) for event in events] + [(act, _act_in_words(act)) for act in acts]
    told.sort(key=lambda one: one[0].at, reverse=True)
    return [
        {
            "step": row.step or 0,
            "x": {"step": row.step or 0, "version": row.version or 0, "time": round(row.at.timestamp(), 1)}[axis],
            "words": words,
        }
        for row, words in told[:MARKS_SHOWN]
    ]


def _first(rows: QuerySet, column: str) -> Subquery:
    return Subquery(rows.values(column)[:1])


def _moment(run: Run, step: int) -> datetime | None:
    """When the step was committed; None before the first."""
    return run.steps.filter(number=step).values_list("committed_at", flat=True).first() if step else None


def _difference(payload: dict) -> str:
    """people.simulated: on → off; one part per field that changed."""
    found = differences(payload["before"], payload["after"])
    return ", ".join(f"{one.address} {_cut(one.before)} → {_cut(one.after)}" for one in found)


def _act_in_words(act: AuditEntry) -> str:
    words, reason = ACTS[act.act], act.details.get("reason", "")
    count = act.details.get("count")
    said = f"{count:,} {words.replace('groups', 'group') if count == 1 else words}" if isinstance(count, int) else words
    return f"{said}: {_cut(reason)}" if reason else said


def _cut(words: str) -> str:
    return words if len(words) <= LONGEST_WORDS else f"{words[:LONGEST_WORDS]}…"


def recent_rewards(runs: Iterable[Run], steps: int = 80) -> dict[int, list[float]]:
    """The mean reward of each run's last steps, oldest first, in one query: for sparklines."""
    found: dict[int, list[float]] = defaultdict(list)
    recent = Metric.objects.of_last_steps(runs, steps).filter(name="reward_mean")
    for run_id, value in recent.order_by("run", "step").values_list("run_id", "value"):
        found[run_id].append(value)
    return found


def polyline(values: list[float], width: int = 96, height: int = 22) -> str:
    """The points attribute of a sparkline, scaled to the values' own range."""
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    spread = (high - low) or 1.0
    return " ".join(
        f"{n * width / (len(values) - 1):.1f},{height - 2 - (value - low) / spread * (height - 4):.1f}"
        for n, value in enumerate(values)
    )
