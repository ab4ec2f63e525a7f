"""Deletion of runs: what goes and what stays, and the confirmation."""

from dataclasses import dataclass

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import seen_run
from apps.dashboard.views.deletions import RUN
from apps.runs.deleting import (
    Contents,
    NotDeletable,
    contents_of,
    delete_runs,
    reasons_against,
)
from apps.runs.models import Run


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
        raise PermissionDenied(RUN.may_not)
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
        return redirect(RUN.page, removals[0].pk)
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
        "query": request.POST.get("query", ""),
    }
    return render(request, "dashboard/run_delete.html", context, status=status)
