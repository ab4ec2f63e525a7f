"""Quality of people's decisions about a run: agreement, each rater, and biases."""

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import steered_run
from apps.feedback.quality.agreeing import (
    Agreement,
    agreements,
    list_agreement_pairs,
    measure_repeat_agreement,
)
from apps.feedback.quality.decisions import NEWEST, Decision, newest_decisions
from apps.feedback.quality.disputes import open_disputes
from apps.feedback.quality.raters import FASTEST_READER, leaning, measure_pace, raters
from apps.feedback.rater_quality import load_quality
from apps.runs.models import Run


@require_safe
@login_required
def quality(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: it names raters, and who answered gold items."""
    run = steered_run(request, project, slug)
    decisions = newest_decisions(run, claims=True)
    context = {
        "section": "runs",
        "run": run,
        "plan": run.settings.people,
        "count": len(decisions),
        "newest": NEWEST,
    }
    if decisions:
        context |= _metrics(run, decisions)
    return render(request, "dashboard/quality.html", context)


def _metrics(run: Run, decisions: list[Decision]) -> dict:
    people = run.settings.people
    measured = agreements(decisions)
    pace = measure_pace(decisions)
    form = _most_used(decisions, people.form)
    rater_quality = load_quality(run, form, people)
    rater_rows = raters(decisions, pace, rater_quality, people)
    simulated = sum(rater.is_simulated for rater in rater_rows)
    return {
        "persons": len(rater_rows) - simulated,
        "simulated": simulated,
        "agreements": measured,
        "pairs": list_agreement_pairs(decisions, measured[0].measure) if measured else [],
        "again": measure_repeat_agreement(decisions),
        "raters": rater_rows,
        "pace": pace,
        "reader": FASTEST_READER,
        "form": form,
        "is_category": bool(rater_quality.kinds),
        "leaning": leaning(decisions),
        "is_weighted": people.aggregation == "weighted",
        "disputes": len(open_disputes(run, decisions)),
        "is_undecided_twice": not any(_has_percent(agreement) for agreement in measured),
    }


def _has_percent(agreement: Agreement) -> bool:
    return agreement.percent.value is not None


def _most_used(decisions: list[Decision], form: str) -> str:
    """Return the form that the run uses if it was answered, else the one answered most."""
    answered = [decision.form for decision in decisions]
    return form if form in answered else max(set(answered), key=answered.count)
