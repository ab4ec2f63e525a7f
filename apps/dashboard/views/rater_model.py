"""Whether a run's rater model can be believed: its audits, its alarms, and what people's decisions were made into."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from apps.dashboard.access import steered_run
from apps.dashboard.curves import Series
from apps.dashboard.trends import newest_of, sketch_of
from apps.feedback.models import RaterModel
from apps.feedback.rater_model.audits import AMBER_FROM, FEWEST, GREEN_FROM
from apps.feedback.rater_model.heads import KIND
from apps.feedback.rater_model.history import figures_over_time, foretold_and_said, samples, spent, telling_words
from apps.feedback.rater_model.learner import RIDGE
from apps.feedback.rater_model.pausing import why_alarming
from apps.feedback.rater_model.unchecked import unchecked
from apps.runs.models import Run

LIGHTS = {
    "none": f"no light yet: it takes {FEWEST} fresh decisions on random replies",
    "red": f"red: under {AMBER_FROM:.0%} of fresh pairs are ordered as people order them",
    "amber": f"amber: between {AMBER_FROM:.0%} and {GREEN_FROM:.0%} of fresh pairs are ordered as people order them",
    "green": f"green: {GREEN_FROM:.0%} or more of fresh pairs are ordered as people order them",
}

LARGE = ("foretold", "said")
# Key, title, why: drawn small, against the decisions learned.
CHARTS = (
    ("accuracy", "pair accuracy", "Share of fresh pairs that were ordered as people then ordered them."),
    (
        "agreement",
        "people agree",
        "Share of pairs that a second person orders as the first did who decided about the same replies.",
    ),
    ("distinct", "different replies", "Share of the newest batch's replies that differ from each other."),
    (
        "surprise",
        "surprise, nats",
        "Mean surprise of the base weights at the newest batch, per token. A jump: strange language.",
    ),
)


@require_safe
@login_required
def rater_model(request: HttpRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: how far the run's rater model is to be believed."""
    run = steered_run(request, project, slug)
    models = RaterModel.objects.filter(run=run).exclude(figures={}).order_by("-number")
    newest = models.filter(kind=RIDGE).first()
    plan = run.settings
    context = {
        "section": "runs", "tab": "rater-model", "run": run, "plan": plan.people, "model": newest,
        "is_used": plan.people.rater_model is not None,
    }  # fmt: skip
    if newest:
        series = curves_of(run)
        context |= {
            "sketch": sketch_of(series, LARGE), "now": newest_of(series, LARGE),
            "charts": [(*chart, sketch_of(series, chart[:1]), newest_of(series, chart[:1])[chart[0]]) for chart in CHARTS],
            "figures": newest.figures, "light": LIGHTS[newest.figures["light"]], "stops": why_alarming(newest.figures),
            "spent": spent(run), "planned": plan.steps * plan.groups_per_step * plan.group_size, "samples": samples(run),
            "words": telling_words(newest.coefficients), "unchecked": unchecked(run), "head": models.filter(kind=KIND).first(),
        }  # fmt: skip
    return render(request, "dashboard/rater_model.html", context)


@require_safe
@login_required
def rater_model_curves(request: HttpRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: points of the page's curves, by decisions learned."""
    run = steered_run(request, project, slug)
    return JsonResponse({"series": curves_of(run)})


def curves_of(run: Run) -> dict[str, Series]:
    return {**foretold_and_said(run), **figures_over_time(run)}
