"""Look up the run of a URL for a user; a run that the user may not see does not exist."""

from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.shortcuts import get_object_or_404

from apps.accounts.requests import SignedInRequest
from apps.runs.blind_review import sees_judgements
from apps.runs.models import Run


def seen_run(request: SignedInRequest, project: str, slug: str) -> Run:
    """Return the run if the user belongs to its project. Raise Http404."""
    runs = Run.objects.visible_to(request.user).select_related(
        "project", "policy", "taskset", "topic", "owner"
    )
    return get_object_or_404(runs, project__slug=project, slug=slug)


def trained_run(request: SignedInRequest, project: str, slug: str) -> Run:
    """Return the run if the user belongs to its project.

    Raise Http404 also for an evaluation, which has no steps and no curves.
    """
    run = seen_run(request, project, slug)
    if run.is_evaluation:
        raise Http404("an evaluation has no steps")
    return run


def steered_run(request: SignedInRequest, project: str, slug: str) -> Run:
    """Return the run if the user may steer it.

    Raises Http404 for a stranger, PermissionDenied for a viewer.
    """
    run = seen_run(request, project, slug)
    if not may_steer(request, run):
        raise PermissionDenied("Only owners and researchers of this project can control its runs.")
    return run


def may_steer(request: SignedInRequest, run: Run) -> bool:
    """Tell whether the user may steer the run; asked once for each run of a request."""
    steerable = request.__dict__.setdefault("steered_runs", {})
    if run.pk not in steerable:
        steerable[run.pk] = Run.objects.steered_by(request.user).filter(pk=run.pk).exists()
    return steerable[run.pk]


def may_see_judgements(request: SignedInRequest, run: Run) -> bool:
    """Tell whether the user sees the judgements of the run; asked once for each run of a request.

    People who may steer it do, which takes one query less to find out.
    """
    seen = request.__dict__.setdefault("judged_runs", {})
    if run.pk not in seen:
        seen[run.pk] = may_steer(request, run) or sees_judgements(request.user, run)
    return seen[run.pk]
