"""Deletion of projects: what goes and what stays, the confirmation, and how far a worker is."""

from collections.abc import Iterable

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.models import Project
from apps.accounts.requests import SignedInRequest
from apps.runs.deleting import JOB, NotDeletable
from apps.runs.deleting_projects import contents_of, delete_project, reasons_against
from apps.runs.models import NotPossible, ProjectRemoval
from apps.streaming import wakeups

MAY_NOT = "Only owners of this project delete it."


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def delete(request: SignedInRequest, project: str) -> HttpResponse:
    """Owners of the project: see what a deletion takes; a POST with its short name orders it."""
    found = get_object_or_404(Project.objects.visible_to(request.user).distinct(), slug=project)
    if not Project.objects.owned_by(request.user).filter(pk=found.pk).exists():
        raise PermissionDenied(MAY_NOT)
    if request.method != "POST":
        return _question(request, found, "", 200)
    typed = request.POST.get("confirmation", "").strip()
    if typed != found.slug:
        return _question(request, found, typed, 422)
    try:
        removal = delete_project(found, request.user)
    except NotDeletable:
        return _question(request, found, typed, 409)
    return redirect("project-deletion", removal.pk)


def _question(request: SignedInRequest, project: Project, typed: str, status: int) -> HttpResponse:
    context = {
        "section": "settings",
        "project": project,
        "contents": contents_of(project),
        "reasons": reasons_against(project),
        "typed": typed,
        "is_wrong": status == 422,
    }
    return render(request, "dashboard/project_delete.html", context, status=status)


@require_safe
@login_required
def show_deletion(request: SignedInRequest, pk: int) -> HttpResponse:
    """Members of the project, and who ordered it: follow a deletion."""
    context = _context(request, _seen(request, pk))
    return render(request, "dashboard/project_deletion.html", context)


@require_safe
@login_required
def deletion_now(request: SignedInRequest, pk: int) -> HttpResponse:
    """Members of the project, and who ordered it: the polled part of the page."""
    context = _context(request, _seen(request, pk))
    return render(request, "dashboard/_project_deletion_now.html", context)


@require_POST
@login_required
def try_again(request: SignedInRequest, pk: int) -> HttpResponse:
    """Owners of the project: let a worker continue a deletion that failed."""
    found = _seen(request, pk)
    if not found.may_be_tried_again_by(request.user):
        raise PermissionDenied(MAY_NOT)
    try:
        found.try_again(request.user)
    except NotPossible as error:
        messages.error(request, f"{error}.".capitalize())
    else:
        wakeups.send(JOB)
    return redirect("project-deletion", found.pk)


def unfinished_deletions(request: SignedInRequest) -> Iterable[ProjectRemoval]:
    """Return the deletions for the list of projects, the newest first."""
    return ProjectRemoval.objects.visible_to(request.user).unfinished().distinct()[:20]


def _seen(request: SignedInRequest, pk: int) -> ProjectRemoval:
    seen = ProjectRemoval.objects.visible_to(request.user).select_related("by").distinct()
    return get_object_or_404(seen, pk=pk)


def _context(request: SignedInRequest, found: ProjectRemoval) -> dict:
    return {
        "section": "settings",
        "removal": found,
        "may_delete": found.may_be_tried_again_by(request.user),
    }
