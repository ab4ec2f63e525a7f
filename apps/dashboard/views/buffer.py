"""A run's buffer page: groups over time, their outcomes, and what the trainer gets."""

from django.contrib.auth.decorators import login_required
from django.db.models import Count, Max, Sum
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from apps.accounts.requests import SignedInRequest
from apps.buffer.models import Experience
from apps.dashboard.access import may_see_judgements, seen_run
from apps.dashboard.buffer_flow import list_flow_streams
from apps.dashboard.buffer_window import load_buffer_window
from apps.dashboard.histograms import build_histograms
from apps.dashboard.occupancy import draw_occupancy
from apps.dashboard.rollout_search import Filter
from apps.dashboard.sankey import draw_sankey
from apps.runs.models import Run


@require_safe
@login_required
def buffer(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project who see its ratings; blind raters get an explanation."""
    run = seen_run(request, project, slug)
    is_open = may_see_judgements(request, run)
    samples = not run.settings.algorithm.learns_from_lessons
    context = {"section": "runs", "run": run, "is_open": is_open, "samples": samples}
    return render(
        request, "dashboard/buffer.html", context | (_metrics(run) if is_open and samples else {})
    )


def _metrics(run: Run) -> dict:
    window = load_buffer_window(run)
    streams = list_flow_streams(window)
    return {
        "window": window,
        "streams": streams,
        "flow": draw_sankey("sampled", streams) if streams else None,
        "occupancy": draw_occupancy(window),
        "histograms": build_histograms(window),
        "census": Experience.objects.census(run),
        "form": Filter(is_open=True),
        "seeded": (
            run.seeds.values("of__run__slug").annotate(groups=Count("pk")).order_by("of__run__slug")
        ),
        "gone": run.releases.aggregate(
            rollouts=Sum("rollouts"), bytes=Sum("bytes"), last=Max("at")
        ),
    }
