"""Reliability of a run's rater model: its audits, its alarms, and its training data."""

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import steered_run
from apps.dashboard.curves import Series
from apps.dashboard.trends import find_last_values, sketch_series
from apps.feedback.models import RaterModel
from apps.feedback.rater_model.audit_warning import warn_of_unchecked
from apps.feedback.rater_model.audits import AMBER_FROM, GREEN_FROM, MIN_AUDITS
from apps.feedback.rater_model.heads import KIND
from apps.feedback.rater_model.history import (
    metrics_over_time,
    predicted_and_rated,
    samples,
    spent,
    telling_words,
)
from apps.feedback.rater_model.learner import RIDGE
from apps.feedback.rater_model.pausing import why_alarming
from apps.runs.models import Run

LIGHTS = {
    "none": f"unknown: needs {MIN_AUDITS} new ratings of random replies",
    "red": f"red: the model orders under {AMBER_FROM:.0%} of new pairs as people do",
    "amber": (
        f"amber: the model orders {AMBER_FROM:.0%} to {GREEN_FROM:.0%} of new pairs as people do"
    ),
    "green": f"green: the model orders {GREEN_FROM:.0%} or more of new pairs as people do",
}

LARGE = ("predicted", "rated")
# (key, title, description) of small charts by number of ratings learned.
CHARTS = (
    (
        "accuracy",
        "pair accuracy",
        "Share of new pairs that the model ordered as people later did.",
    ),
    (
        "agreement",
        "agreement",
        "Share of pairs that two raters of the same replies put in the same order.",
    ),
    (
        "distinct",
        "distinct replies",
        "Share of distinct replies in the newest batch.",
    ),
    (
        "surprise",
        "surprise, nats",
        (
            "Mean surprise of the newest batch under the base model, per token. A jump means"
            " unusual language."
        ),
    ),
)


@require_safe
@login_required
def rater_model(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: the reliability of the run's rater model."""
    run = steered_run(request, project, slug)
    models = RaterModel.objects.filter(run=run).exclude(metrics={}).order_by("-number")
    newest = models.filter(kind=RIDGE).first()
    plan = run.settings
    context = {
        "section": "runs",
        "run": run,
        "plan": plan.people,
        "model": newest,
        "is_used": plan.people.rater_model is not None,
    }
    if newest:
        series = build_rater_model_curves(run)
        context |= {
            "sketch": sketch_series(series, LARGE),
            "now": find_last_values(series, LARGE),
            "charts": [
                (
                    *chart,
                    sketch_series(series, chart[:1]),
                    find_last_values(series, chart[:1])[chart[0]],
                )
                for chart in CHARTS
            ],
            "metrics": newest.metrics,
            "light": LIGHTS[newest.metrics["light"]],
            "stops": why_alarming(newest.metrics),
            "spent": spent(run),
            "planned": plan.steps * plan.groups_per_step * plan.group_size,
            "samples": samples(run),
            "words": telling_words(newest.coefficients),
            "unchecked": warn_of_unchecked(run),
            "head": models.filter(kind=KIND).first(),
        }
    return render(request, "dashboard/rater_model.html", context)


@require_safe
@login_required
def rater_model_curves(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: points of the page's curves, by decisions learned."""
    run = steered_run(request, project, slug)
    return JsonResponse({"series": build_rater_model_curves(run)})


def build_rater_model_curves(run: Run) -> dict[str, Series]:
    return {**predicted_and_rated(run), **metrics_over_time(run)}
