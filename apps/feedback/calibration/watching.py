"""Calibration kept up with what people say, and an alert on the run while a scorer is under what its owner asks of it."""

from datetime import timedelta

from django.db.models import F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Now

from apps.feedback.calibration.making import make
from apps.feedback.calibration.ordering import reorder
from apps.feedback.models import Calibration, Rating
from apps.runs.config import RunConfig
from apps.runs.models import NotPossible, Run
from apps.runs.scorer_choice import Trust

ALL_FIRST = F("domain").asc(nulls_first=True)  # all tasks, then domain by domain
RUNS_AT_ONCE = 8
PAUSE = timedelta(seconds=30)  # between two makings of one run's figures
ASKED = {"accuracy": "accuracy", "kappa": "kappa", "order": "order of pairs"}  # field of `trust`, and of the figures: its words


def keep_up() -> int:
    """Make the figures of runs about which people have said something since, and what waits there in a new order."""
    runs = list(due()[:RUNS_AT_ONCE])
    for run in runs:
        make(run)
        reorder(run)
    watch()
    return len(runs)


def due() -> QuerySet[Run]:
    """Runs with scorers whose newest rating is newer than their figures, and these not just made; one probe of an index a run."""
    newest = Rating.objects.filter(run=OuterRef("pk")).order_by("-pk").values("pk")[:1]
    known = Calibration.objects.filter(run=OuterRef("pk")).order_by("-last_rating")
    said = Run.objects.annotate(
        newest=Subquery(newest), known=Subquery(known.values("last_rating")[:1]), made=Subquery(known.values("made_at")[:1])
    )
    is_behind = Q(known=None) | Q(newest__gt=F("known"), made__lt=Now() - PAUSE)
    return said.filter(is_behind, newest__isnull=False).exclude(config__rewards=[]).order_by("-pk")


def watch() -> None:
    """Raise what alarms, and end what does not any more, of the runs that may still be changed."""
    open_runs = Calibration.objects.exclude(run__state__in=Run.ENDED).select_related("run__topic").defer("widest")
    plans: dict[int, RunConfig] = {}
    for row in open_runs.order_by("run", "scorer", ALL_FIRST):
        plan = plans.setdefault(row.run_id, row.run.settings)
        trust = next((choice.trust for choice in plan.rewards if choice.scorer == row.scorer), None)
        why = under(row.figures, trust)
        if bool(why) != bool(row.alarm):
            _turn(row, why)
        elif why[:500] != row.alarm:
            Calibration.objects.filter(pk=row.pk).exclude(alarm="").update(alarm=why[:500])
        if why and trust.pause and not row.has_paused and is_sure(row.figures, trust):
            _pause(row, why)


def under(figures: dict, trust: Trust | None) -> str:
    """What of the figures is under what is asked, in words; nothing where there are fewer labels than it takes to say so."""
    if trust is None or figures["labels"] < trust.least:
        return ""
    return "; ".join(
        f"{words} {figure['value']:.2f}{_interval(figure)}, and {getattr(trust, field):.2f} is asked"
        for field, words in ASKED.items()
        if (figure := figures[field]) and _is_under(figure["value"], getattr(trust, field))
    )


def is_sure(figures: dict, trust: Trust) -> bool:
    """Whether some figure is under by more than chance: the upper end of its interval is."""
    return any(_is_under(figures[field]["high"], getattr(trust, field)) for field in ASKED)


def _is_under(value: float | None, asked: float | None) -> bool:
    return value is not None and asked is not None and value < asked


def _interval(figure: dict) -> str:
    return "" if figure["low"] is None else f" ({figure['low']:.2f} to {figure['high']:.2f})"


def told(row: Calibration, why: str) -> str:
    """The alarm as a sentence."""
    where = "" if row.domain is None else f" at tasks of domain {row.domain}" if row.domain else " at tasks without a domain"
    return f"Scorer {row.scorer} is under its threshold{where}: {why}."


def _turn(row: Calibration, why: str) -> None:
    """Raise the alarm, or end it; once, whoever else is looking."""
    changed = Calibration.objects.filter(pk=row.pk, alarm=row.alarm).update(
        alarm=why[:500], alarmed_at=Now() if why else None, has_paused=False
    )
    if not changed:
        return
    row.has_paused = False
    if why:
        row.run.topic.record("scorer_alarmed", scorer=row.scorer, domain=row.domain, reason=told(row, why))
    else:
        row.run.topic.record("scorer_recovered", scorer=row.scorer, domain=row.domain)


def _pause(row: Calibration, why: str) -> None:
    """Once for each alarm: who resumes the run has looked."""
    try:
        row.run.pause(reason=told(row, why)[:500])
    except NotPossible:  # it does not run, or somebody paused it meanwhile
        return
    Calibration.objects.filter(pk=row.pk).update(has_paused=True)


def alarms_of(run: Run) -> list[Calibration]:
    """The alarms that stand; one statement."""
    return list(Calibration.objects.filter(run=run).exclude(alarm="").order_by("scorer", ALL_FIRST).defer("figures", "widest"))
