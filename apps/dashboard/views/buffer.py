"""A run's buffer: where its groups stood over time, what became of them, and what the trainer is given to learn from."""

from django.contrib.auth.decorators import login_required
from django.db.models import Count, Max, Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from apps.buffer.models import Experience
from apps.dashboard.access import seen_run
from apps.dashboard.buffer_flow import streams_of
from apps.dashboard.buffer_window import window_of
from apps.dashboard.histograms import histograms_of
from apps.dashboard.occupancy import occupancy_of
from apps.dashboard.rollout_search import Filter
from apps.dashboard.sankey import drawn
from apps.runs.blindness import sees_judgements
from apps.runs.models import Run


@require_safe
@login_required
def buffer(request: HttpRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project who see its judgements; who judges it blind is told why nothing is here."""
    run = seen_run(request, project, slug)
    is_open, samples = sees_judgements(request.user, run), not run.settings.algorithm.learns_from_lessons
    context = {"section": "runs", "run": run, "is_open": is_open, "samples": samples}
    return render(request, "dashboard/buffer.html", context | (_figures(run) if is_open and samples else {}))


def _figures(run: Run) -> dict:
    window = window_of(run)
    streams = streams_of(window)
    return {
        "window": window, "streams": streams, "flow": drawn("drawn", streams) if streams else None,
        "occupancy": occupancy_of(window), "histograms": histograms_of(window),
        "census": Experience.objects.census(run), "form": Filter(is_open=True),
        "seeded": run.seeds.values("of__run__slug").annotate(groups=Count("pk")).order_by("of__run__slug"),
        "gone": run.releases.aggregate(rollouts=Sum("rollouts"), bytes=Sum("bytes"), last=Max("at")),
    }  # fmt: skip
