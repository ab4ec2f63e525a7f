"""Weight versions: of all runs one does not judge blind, and of one run, with every engine's acknowledgement."""

from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from apps.dashboard.access import seen_run
from apps.dashboard.paging import page_of
from apps.runs.blindness import judged_openly, sees_judgements
from apps.runs.models import WeightVersion


def _versions(request: HttpRequest) -> QuerySet[WeightVersion]:
    visible = WeightVersion.objects.filter(run__in=judged_openly(request.user))
    return visible.select_related("run__project").prefetch_related("acknowledgements__worker")


@require_safe
@login_required
def weights(request: HttpRequest) -> HttpResponse:
    """Everybody signed in: the versions of the runs of their projects."""
    trained = _versions(request).filter(run__is_evaluation=False)
    return render(request, "dashboard/weights.html", {"section": "weights", "page": page_of(trained, request)})


@require_safe
@login_required
def weights_of_run(request: HttpRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project."""
    run = seen_run(request, project, slug)
    is_open = sees_judgements(request.user, run)
    page = page_of(_versions(request).filter(run=run), request)
    return render(request, "dashboard/weights.html", {"section": "weights", "run": run, "page": page, "is_open": is_open})
