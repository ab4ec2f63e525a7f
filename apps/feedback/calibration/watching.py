"""Update calibrations after new ratings, and alert while a scorer is below its threshold."""

from datetime import timedelta

from django.db.models import F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Now

from apps.feedback.calibration.making import write_calibrations
from apps.feedback.calibration.ordering import reorder
from apps.feedback.models import Calibration, Rating
from apps.runs.config import RunConfig
from apps.runs.models import NotPossible, Run
from apps.runs.scorer_choice import Trust

ALL_FIRST = F("domain").asc(nulls_first=True)  # all tasks, then domain by domain
RUNS_AT_ONCE = 8
PAUSE = timedelta(seconds=30)  # the least time between two computations for one run
# Field of `trust` and of the metrics → its description.
ASKED = {
    "accuracy": "accuracy",
    "kappa": "kappa",
    "order": "order of pairs",
}


def update_calibrations() -> int:
    """Recompute the calibrations of runs with new ratings, and reorder their waiting items."""
    runs = list(list_runs_due_for_calibration()[:RUNS_AT_ONCE])
    for run in runs:
        write_calibrations(run)
        reorder(run)
    watch_alarms()
    return len(runs)


def list_runs_due_for_calibration() -> QuerySet[Run]:
    """Return runs with scorers whose ratings are newer than their calibration.

    Runs that were calibrated just now are left out. One index probe per run.
    """
    newest = Rating.objects.filter(run=OuterRef("pk")).order_by("-pk").values("pk")[:1]
    calibrations = Calibration.objects.filter(run=OuterRef("pk")).order_by("-last_rating")
    runs = Run.objects.annotate(
        newest=Subquery(newest),
        last_rating=Subquery(calibrations.values("last_rating")[:1]),
        made=Subquery(calibrations.values("made_at")[:1]),
    )
    is_behind = Q(last_rating=None) | Q(newest__gt=F("last_rating"), made__lt=Now() - PAUSE)
    return runs.filter(is_behind, newest__isnull=False).exclude(config__rewards=[]).order_by("-pk")


def watch_alarms() -> None:
    """Raise and end alarms of the runs that may still be changed."""
    open_runs = (
        Calibration.objects.exclude(run__state__in=Run.ENDED)
        .select_related("run__topic")
        .defer("widest")
    )
    plans: dict[int, RunConfig] = {}
    for row in open_runs.order_by("run", "scorer", ALL_FIRST):
        plan = plans.setdefault(row.run_id, row.run.settings)
        trust = next((choice.trust for choice in plan.rewards if choice.scorer == row.scorer), None)
        why = under(row.metrics, trust)
        if bool(why) != bool(row.alarm):
            _turn(row, why)
        elif why[:500] != row.alarm:
            Calibration.objects.filter(pk=row.pk).exclude(alarm="").update(alarm=why[:500])
        if not why or trust is None or not trust.pause:
            continue
        if not row.has_paused and is_sure(row.metrics, trust):
            _pause(row, why)


def under(metrics: dict, trust: Trust | None) -> str:
    """Return which metrics are below their threshold, as text; empty with too few labels."""
    if trust is None or metrics["labels"] < trust.min_labels:
        return ""
    return "; ".join(
        f"{words} {metric['value']:.2f}{_interval(metric)}, target {getattr(trust, field):.2f}"
        for field, words in ASKED.items()
        if (metric := metrics[field]) and _is_under(metric["value"], getattr(trust, field))
    )


def is_sure(metrics: dict, trust: Trust) -> bool:
    """Tell whether a metric is significantly below its threshold: its interval's upper end is."""
    return any(_is_under(metrics[field]["high"], getattr(trust, field)) for field in ASKED)


def _is_under(value: float | None, threshold: float | None) -> bool:
    return value is not None and threshold is not None and value < threshold


def _interval(metric: dict) -> str:
    return "" if metric["low"] is None else f" ({metric['low']:.2f} to {metric['high']:.2f})"


def alarm_sentence(row: Calibration, why: str) -> str:
    """Return the alarm as a sentence."""
    where = ""
    if row.domain is not None:
        where = f" on tasks {f'of domain {row.domain}' if row.domain else 'without a domain'}"
    return f"Scorer {row.scorer} misses its target{where}: {why}."


def _turn(row: Calibration, why: str) -> None:
    """Raise the alarm, or end it, once even if several processes check."""
    changed = Calibration.objects.filter(pk=row.pk, alarm=row.alarm).update(
        alarm=why[:500], alarmed_at=Now() if why else None, has_paused=False
    )
    if not changed:
        return
    row.has_paused = False
    if why:
        row.run.topic.record(
            "scorer_alarmed", scorer=row.scorer, domain=row.domain, reason=alarm_sentence(row, why)
        )
    else:
        row.run.topic.record("scorer_recovered", scorer=row.scorer, domain=row.domain)


def _pause(row: Calibration, why: str) -> None:
    """Pause the run, once for each alarm: a person who resumes it has seen the alarm."""
    try:
        row.run.pause(reason=alarm_sentence(row, why)[:500])
    except NotPossible:  # the run is not running, or somebody paused it meanwhile
        return
    Calibration.objects.filter(pk=row.pk).update(has_paused=True)


def list_current_alarms(run: Run) -> list[Calibration]:
    """Return the current alarms; one statement."""
    return list(
        Calibration.objects.filter(run=run)
        .exclude(alarm="")
        .order_by("scorer", ALL_FIRST)
        .defer("metrics", "widest")
    )
