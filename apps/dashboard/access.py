"""Which run an address means, for this person. What one may not see does not exist."""

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.shortcuts import get_object_or_404

from apps.runs.models import Run


def seen_run(request: HttpRequest, project: str, slug: str) -> Run:
    """The run, when the person belongs to its project. Raises Http404."""
    runs = Run.objects.visible_to(request.user).select_related("project", "policy", "taskset", "topic", "owner")
    return get_object_or_404(runs, project__slug=project, slug=slug)


def steered_run(request: HttpRequest, project: str, slug: str) -> Run:
    """The run, when the person may steer it. Raises Http404 for a stranger, PermissionDenied for a mere viewer."""
    run = seen_run(request, project, slug)
    if not may_steer(request, run):
        raise PermissionDenied("Only owners and researchers of this project steer its runs.")
    return run


def may_steer(request: HttpRequest, run: Run) -> bool:
    return Run.objects.steered_by(request.user).filter(pk=run.pk).exists()
