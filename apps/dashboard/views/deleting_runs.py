"""Deletion of runs: what goes and what stays, the confirmation, and how far a worker is."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.models import Project
from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import seen_run
from apps.runs.deleting import (
    JOB,
    Contents,
    NotDeletable,
    contents_of,
    delete_runs,
    reasons_against,
)
from apps.runs.models import NotPossible, Run, RunRemoval
from apps.streaming import wakeups

MAY_NOT = "Only owners of this project delete its runs."


@dataclass(frozen=True)
class Candidate:
    """A run that may be deleted, with what goes and what stays, or what prevents it."""

    run: Run
    contents: Contents
    reasons: list[str]


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def delete_run(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners of the project: see what a deletion takes; a POST with the run's name orders it."""
    run = seen_run(request, project, slug)
    if not Run.objects.owned_by(request.user).filter(pk=run.pk).exists():
        raise PermissionDenied(MAY_NOT)
    if request.method == "POST":
        return confirm_deletion(request, [run])
    return _question(request, [run], "", 200)


def confirm_deletion(request: SignedInRequest, runs: list[Run]) -> HttpResponse:
    """Delete the runs if the confirmation is typed, else ask for it.

    The confirmation of one run is its name, that of several is how many they are.
    """
    typed = request.POST.get("confirmation", "").strip()
    if not typed:
        return _question(request, runs, "", 200)
    if typed != _confirmation(runs):
        return _question(request, runs, typed, 422)
    try:
        removals = delete_runs(runs, request.user)
    except NotDeletable:
        return _question(request, runs, typed, 409)
    if len(removals) == 1:
        return redirect("run-deletion", removals[0].pk)
    messages.success(request, f"{len(removals)} runs are being deleted.")
    return redirect("runs")


def _confirmation(runs: list[Run]) -> str:
    return runs[0].slug if len(runs) == 1 else str(len(runs))


def _question(request: SignedInRequest, runs: list[Run], typed: str, status: int) -> HttpResponse:
    keys = [run.pk for run in runs]
    candidates = [Candidate(run, contents_of(run), reasons_against(run, keys)) for run in runs]
    context = {
        "section": "runs",
        "candidates": candidates,
        "is_possible": not any(candidate.reasons for candidate in candidates),
        "confirmation": _confirmation(runs),
        "typed": typed,
        "is_wrong": status == 422,
        "asked": request.POST.get("asked", ""),
    }
    return render(request, "dashboard/run_delete.html", context, status=status)


@require_safe
@login_required
def removal(request: SignedInRequest, pk: int) -> HttpResponse:
    """Members of the run's project: follow a deletion."""
    return render(request, "dashboard/run_deletion.html", _context(request, _seen(request, pk)))


@require_safe
@login_required
def removal_now(request: SignedInRequest, pk: int) -> HttpResponse:
    """Members of the run's project: the polled part of the page."""
    context = _context(request, _seen(request, pk))
    return render(request, "dashboard/_run_deletion_now.html", context)


@require_POST
@login_required
def try_again(request: SignedInRequest, pk: int) -> HttpResponse:
    """Owners of the project: let a worker continue a deletion that failed."""
    found = _seen(request, pk)
    if not _may_delete(request, found):
        raise PermissionDenied(MAY_NOT)
    try:
        found.try_again(request.user)
    except NotPossible as error:
        messages.error(request, f"{error}.".capitalize())
    else:
        wakeups.send(JOB)
    return redirect("run-deletion", found.pk)


def unfinished_deletions(request: SignedInRequest) -> Iterable[RunRemoval]:
    """Return the deletions for the list of runs, the newest first."""
    seen = RunRemoval.objects.visible_to(request.user).unfinished()
    return seen.select_related("project")[:20]


def _seen(request: SignedInRequest, pk: int) -> RunRemoval:
    seen = RunRemoval.objects.visible_to(request.user).select_related("project", "by")
    return get_object_or_404(seen, pk=pk)


def _may_delete(request: SignedInRequest, found: RunRemoval) -> bool:
    return Project.objects.owned_by(request.user).filter(pk=found.project_id).exists()


def _context(request: SignedInRequest, found: RunRemoval) -> dict:
    return {"section": "runs", "removal": found, "may_delete": _may_delete(request, found)}
