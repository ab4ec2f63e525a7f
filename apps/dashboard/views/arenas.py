"""Blind arenas: all of a person's projects, one's standings, making one of ticked evaluations, closing it, its votes as a file."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.downloads import download
from apps.accounts.models import Project
from apps.dashboard.access import steered_run
from apps.dashboard.arenas import domains_of, matrix_of, rows_of, seen_among
from apps.dashboard.paging import page_of
from apps.dashboard.views.evaluations import refused
from apps.feedback.arena.making import close, make, open_again
from apps.feedback.arena.standings import standings_of
from apps.feedback.arena.voting import pairings_of
from apps.feedback.arena.writing import votes_file
from apps.feedback.models import Arena
from apps.runs.config import ConfigError

PAGE = 30
ACTS = {
    "close": (close, "The arena is closed: its votes and standings stay."),
    "open": (open_again, "The arena is open again."),
}
MOST_TICKED = 200


@require_safe
@login_required
def arenas(request: HttpRequest) -> HttpResponse:
    """Everybody signed in: the arenas of their projects, or of `?project=`, the newest first."""
    found = Arena.objects.visible_to(request.user).select_related("project", "taskset").prefetch_related("pairings", "contestants")
    chosen = request.GET.get("project", "")
    if chosen:
        found = found.filter(project=get_object_or_404(Project.objects.visible_to(request.user), slug=chosen))
    page = page_of(found, request, PAGE)
    seen = seen_among(request.user, page.rows)
    judged = Arena.objects.judged_by(request.user).open().filter(pk__in=[one.pk for one in page.rows])
    judged = set(judged.values_list("pk", flat=True))
    rows = [
        {
            "arena": one, "contestants": len(one.contestants.all()), "votes": sum(pairing.votes for pairing in one.pairings.all()),
            "pairs": sum(pairing.size for pairing in one.pairings.all()), "is_seen": one.pk in seen, "may_judge": one.pk in judged,
        }
        for one in page.rows
    ]  # fmt: skip
    return render(request, "dashboard/arenas.html", {"section": "rate", "rows": rows, "page": page, "chosen": chosen})


@require_safe
@login_required
def arena(request: HttpRequest, project: str, pk: int) -> HttpResponse:
    """Members of the project: the standings; who judges one of its runs blind is told that they are not shown."""
    found = _seen(request, project, pk)
    pairings = pairings_of(found)
    context = {
        "section": "rate", "arena": found, "pairs": sum(one.size for one in pairings), "same": sum(one.same for one in pairings),
        "is_open": bool(seen_among(request.user, [found])), "may_steer": _may_steer(request, found),
        "may_judge": found.is_open and Arena.objects.judged_by(request.user).filter(pk=pk).exists(),
    }  # fmt: skip
    if context["is_open"]:
        standings = standings_of(found)
        rows = rows_of(standings)
        context |= {
            "found": standings, "left": standings.left, "rows": rows, "labels": [row.label for row in rows],
            "matrix": list(zip(rows, matrix_of(standings), strict=True)), "domains": domains_of(standings),
        }  # fmt: skip
    return render(request, "dashboard/arena.html", context)


@require_safe
@login_required
def votes_csv(request: HttpRequest, project: str, pk: int) -> HttpResponse:
    """Owners and researchers of the project: every vote ever cast, with who wrote what."""
    found = _steered(request, project, pk)
    return download(request, votes_file(found), "text/csv; charset=utf-8", f"{project}-arena-{pk}-votes.csv")


@require_POST
@login_required
def act(request: HttpRequest, project: str, pk: int, verb: str) -> HttpResponse:
    """Owners and researchers of the project: close the arena, or open it again."""
    found = _steered(request, project, pk)
    if verb not in ACTS:
        raise Http404(f"an arena is closed or opened; it knows no {verb}")
    done, words = ACTS[verb]
    done(found, request.user)
    messages.success(request, words)
    return redirect("arena", project, pk)


@require_POST
@login_required
def make_arena(request: HttpRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: an arena of the ticked evaluations."""
    run = steered_run(request, project, slug)
    try:
        again = _share(request.POST.get("again", ""))
        made = make(run.project, request.user, request.POST.get("title", ""), _ticked(request), again)
    except ConfigError as wrong:
        return refused(request, run, wrong, "No arena was made", "arena")
    messages.success(request, "The arena is open: everybody who rates in this project finds it under Rate.")
    return redirect("arena", project, made.pk)


def _ticked(request: HttpRequest) -> list[int]:
    texts = request.POST.getlist("contestant")[:MOST_TICKED]
    return [int(text) for text in texts if text.isascii() and text.isdigit() and len(text) < 19]


def _share(text: str) -> float:
    """Per cent as a share; nothing is 0. Raises ConfigError."""
    try:
        return float(text or 0) / 100
    except ValueError:
        raise ConfigError({"again": "must be a number from 0 to 100"}) from None


def _seen(request: HttpRequest, project: str, pk: int) -> Arena:
    """Raises Http404."""
    return get_object_or_404(
        Arena.objects.visible_to(request.user).select_related("project", "taskset", "by"), project__slug=project, pk=pk
    )


def _steered(request: HttpRequest, project: str, pk: int) -> Arena:
    """Raises Http404 for a stranger, PermissionDenied for who does not steer runs."""
    found = _seen(request, project, pk)
    if not _may_steer(request, found):
        raise PermissionDenied("Only owners and researchers of this project do that.")
    return found


def _may_steer(request: HttpRequest, found: Arena) -> bool:
    return Project.objects.run_by(request.user).filter(pk=found.project_id).exists()
