"""A run's curves as points: from a cursor, down-sampled in the database to a few hundred per curve."""

from collections import defaultdict
from collections.abc import Iterable

from django.db.models import F, Max, Min, OuterRef, Subquery
from django.db.models.functions import Mod

from apps.runs.changing import flat
from apps.runs.models import Metric, Run, TrainStep

POINTS = 400
LONGEST_WORDS = 24  # of a value in the mark of a change: guidelines are pages long
CHANGES_SHOWN = 10
Series = dict[str, list]


def curves(run: Run, names: Iterable[str], after: int = 0, points: int = POINTS) -> dict[str, Series]:
    """{name: {"x": [step], "y": [value]}} of the steps above `after`.

    Where there are more steps than `points`, each bucket of steps gives its minimum and its maximum: no peak is lost
    and no answer grows with the run.
    """
    wide = max(1, -(-(run.step - after) // points))
    start = F("step") - Mod(F("step"), wide)
    rows = Metric.objects.filter(run=run, step__gt=after, name__in=list(names)).order_by().values("name", bucket=start)
    found: dict[str, Series] = defaultdict(lambda: {"x": [], "y": []})
    for row in rows.annotate(low=Min("value"), high=Max("value"), last=Max("step")).order_by("name", "bucket"):
        series = found[row["name"]]
        if row["low"] != row["high"]:
            series["x"].append(row["bucket"])
            series["y"].append(row["low"])
        series["x"].append(row["last"])
        series["y"].append(row["high"])
    return dict(found)


def changes(run: Run) -> list[dict]:
    """The last changes of the run's configuration: {"step": the step it was at, "words": what changed}."""
    before = TrainStep.objects.filter(run=run, committed_at__lte=OuterRef("at")).order_by("-number").values("number")[:1]
    events = run.topic.events.filter(kind="config_changed").annotate(step=Subquery(before)).order_by("-sequence")[:CHANGES_SHOWN]
    return [{"step": event.step or 0, "words": _difference(event.payload)} for event in events]


def _difference(payload: dict) -> str:
    """people.simulated: True → False; one part per field that changed."""
    before, after = flat(payload["before"]), flat(payload["after"])
    return ", ".join(
        f"{name} {_said(before.get(name))} → {_said(value)}" for name, value in after.items() if value != before.get(name)
    )


def _said(value: object) -> str:
    words = {True: "on", False: "off"}[value] if isinstance(value, bool) else " ".join(str(value).split())
    return words if len(words) <= LONGEST_WORDS else f"{words[:LONGEST_WORDS]}…"


def recent_rewards(runs: Iterable[Run], steps: int = 80) -> dict[int, list[float]]:
    """The mean reward of each run's last steps, oldest first, in one query: for sparklines."""
    found: dict[int, list[float]] = defaultdict(list)
    recent = Metric.objects.filter(run__in=[run.pk for run in runs], name="reward_mean", step__gt=F("run__step") - steps)
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
