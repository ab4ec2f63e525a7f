"""A run's data as files: metrics, events, and its project's audit log."""

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponseBase
from django.views.decorators.http import require_safe

from apps.accounts.downloads import stream_download
from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import steered_run
from apps.evaluation.exporting import evaluations_file
from apps.runs.exporting.reading import RunMetrics
from apps.runs.exporting.writing import (
    FORMATS,
    JSONL,
    SHAPES,
    audit_file,
    events_file,
    metrics_file,
    metrics_file_name,
)


@require_safe
@login_required
def metrics(
    request: SignedInRequest, project: str, slug: str, shape: str, format: str
) -> HttpResponseBase:
    """Owners and researchers of the project: every metric of every step, streamed as it is read."""
    run = steered_run(request, project, slug)
    if shape not in SHAPES or format not in FORMATS:
        raise Http404(f"no metrics-{shape}.{format}")
    pieces = metrics_file(RunMetrics(run), shape, format)
    return stream_download(request, pieces, FORMATS[format], metrics_file_name(run, shape, format))


@require_safe
@login_required
def download_evaluations(
    request: SignedInRequest, project: str, slug: str, format: str
) -> HttpResponseBase:
    """Owners and researchers of the project: every metric of every version that was evaluated."""
    run = steered_run(request, project, slug)
    if format not in FORMATS:
        raise Http404(f"no evaluations.{format}")
    return stream_download(
        request,
        evaluations_file(run, format),
        FORMATS[format],
        f"{project}-{slug}-evaluations.{format}",
    )


@require_safe
@login_required
def download_events(request: SignedInRequest, project: str, slug: str) -> HttpResponseBase:
    """Owners and researchers of the project: all events of the run in their order."""
    run = steered_run(request, project, slug)
    return stream_download(request, events_file(run), JSONL, f"{project}-{slug}-events.jsonl")


@require_safe
@login_required
def audit(request: SignedInRequest, project: str, slug: str) -> HttpResponseBase:
    """Owners and researchers of the project: its audit log."""
    run = steered_run(request, project, slug)
    return stream_download(request, audit_file(run), JSONL, f"{project}-audit.jsonl")
