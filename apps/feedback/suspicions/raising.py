"""Detect hacking in a run's newest replies: a finding raises or updates a suspicion."""

from dataclasses import replace

from django.db.models import Max
from django.db.models.functions import Now

from apps.accounts.locking import unit_of_work
from apps.feedback.models import Suspicion
from apps.feedback.suspicions.reading import read_judged_replies
from apps.feedback.suspicions.sampling import sample_replies
from apps.rewards.hacking import DETECTORS, TITLES
from apps.rewards.hacking.rows import Finding, JudgedReplies
from apps.runs.models import Run


def look_through(run: Run) -> list[Suspicion]:
    """Return the open suspicions found now, new or not; none if the run is not watched."""
    plan = run.settings
    if not plan.hacking.watch or not plan.samples:
        return []
    judged = read_judged_replies(run)
    if not judged.rows:
        return []
    closed = dict(
        run.suspicions.exclude(closed_step=None)
        .order_by()
        .values_list("kind")
        .annotate(n=Max("closed_step"))
    )
    raised = []
    for kind, detector in DETECTORS.items():
        remaining = (
            _without_decided_guesses(run, judged)
            if kind == "guessed"
            else _since_closed_step(judged, closed.get(kind))
        )
        if remaining.rows and (finding := detector.detect(remaining, plan.hacking)):
            raised.append(_keep(run, kind, finding, remaining))
    return raised


def _since_closed_step(judged: JudgedReplies, closed: int | None) -> JudgedReplies:
    """Remove rows sampled before the last suspicion of this kind was closed."""
    return (
        judged
        if closed is None
        else replace(judged, rows=[row for row in judged.rows if row.step > closed])
    )


def _without_decided_guesses(run: Run, judged: JudgedReplies) -> JudgedReplies:
    """Remove the guessed tasks that somebody has already decided about."""
    closed = (
        run.suspicions.filter(kind="guessed")
        .exclude(state=Suspicion.State.OPEN)
        .values_list("tasks", flat=True)
    )
    decided = {task for tasks in closed for task in tasks}
    return replace(
        judged, guesses={pk: guess for pk, guess in judged.guesses.items() if pk not in decided}
    )


@unit_of_work
def _keep(run: Run, kind: str, finding: Finding, judged: JudgedReplies) -> Suspicion:
    """Save a finding: one open suspicion per kind, with the newest metrics.

    Its sample does not change once people are asked.
    """
    facts = {
        "words": finding.words,
        "metrics": {name: round(value, 4) for name, value in finding.metrics.items()},
        "evidence": list(finding.rollouts),
        "series": {
            name: [list(point) for point in curve] for name, curve in finding.series.items()
        },
        "tasks": list(finding.tasks),
        "last_step": run.step,
    }
    suspicion, is_new = Suspicion.objects.get_or_create(
        run=run, kind=kind, state=Suspicion.State.OPEN, defaults={**facts, "first_step": run.step}
    )
    if not suspicion.items.exists():
        facts["sample"] = sample_replies(
            judged.rows, finding.rollouts, run.settings.hacking.sample, suspicion.pk
        )
    Suspicion.objects.filter(pk=suspicion.pk).update(**facts, last_seen_at=Now())
    if is_new:
        run.topic.record(
            "suspicion_raised", suspicion=suspicion.pk, suspected=kind, words=TITLES[kind]
        )
    suspicion.refresh_from_db()
    return suspicion
