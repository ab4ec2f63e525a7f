"""Deletion of a project: what goes and what stays, and the confirmation."""

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods

from apps.accounts.models import Project
from apps.accounts.requests import SignedInRequest
from apps.dashboard.views.deletions import PROJECT
from apps.runs.deleting import NotDeletable
from apps.runs.deleting_projects import contents_of, delete_project, reasons_against


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def delete(request: SignedInRequest, project: str) -> HttpResponse:
    """Owners of the project: see what a deletion takes; a POST with its short name orders it."""
    visible_project = get_object_or_404(
        Project.objects.visible_to(request.user).distinct(), slug=project
    )
    if not Project.objects.owned_by(request.user).filter(pk=visible_project.pk).exists():
        raise PermissionDenied(PROJECT.may_not)
    if request.method != "POST":
        return _question(request, visible_project, "", 200)
    typed = request.POST.get("confirmation", "").strip()
    if typed != visible_project.slug:
        return _question(request, visible_project, typed, 422)
    try:
        removal = delete_project(visible_project, request.user)
    except NotDeletable:
        return _question(request, visible_project, typed, 409)
    return redirect(PROJECT.page, removal.pk)


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
