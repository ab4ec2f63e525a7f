"""Blind arenas: the list, standings, making one of evaluations, closing it, votes as a file."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.downloads import stream_download
from apps.accounts.models import Project
from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import steered_run
from apps.dashboard.arenas import (
    build_score_matrix,
    build_standings_rows,
    list_domain_scores,
    seen_among,
)
from apps.dashboard.paging import load_page
from apps.dashboard.views.evaluations import refused
from apps.evaluation.arena.making import close_arena, create_arena, open_again
from apps.evaluation.arena.standings import compute_standings
from apps.evaluation.arena.voting import list_pairings
from apps.evaluation.arena.writing import votes_file
from apps.evaluation.models import Arena
from apps.runs.config import ConfigError

PAGE = 30
ACTS = {
    "close": (close_arena, "Arena closed. Votes and standings are kept."),
    "open": (open_again, "Arena reopened."),
}
MAX_SELECTED = 200


@require_safe
@login_required
def arenas(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: the arenas of their projects, or of `?project=`, the newest first."""
    visible = (
        Arena.objects.visible_to(request.user)
        .select_related("project", "taskset")
        .prefetch_related("pairings", "contestants")
    )
    chosen = request.GET.get("project", "")
    if chosen:
        visible = visible.filter(
            project=get_object_or_404(Project.objects.visible_to(request.user), slug=chosen)
        )
    else:
        visible = visible.filter(project__archived_at=None)
    page = load_page(visible, request, PAGE)
    visible_ids = seen_among(request.user, page.rows)
    open_arenas = (
        Arena.objects.judged_by(request.user)
        .open()
        .filter(pk__in=[arena_row.pk for arena_row in page.rows])
    )
    judged = set(open_arenas.values_list("pk", flat=True))
    rows = [
        {
            "arena": arena_row,
            "contestants": len(arena_row.contestants.all()),
            "votes": sum(pairing.votes for pairing in arena_row.pairings.all()),
            "pairs": sum(pairing.size for pairing in arena_row.pairings.all()),
            "is_seen": arena_row.pk in visible_ids,
            "may_judge": arena_row.pk in judged,
        }
        for arena_row in page.rows
    ]
    return render(
        request,
        "dashboard/arenas.html",
        {"section": "rate", "rows": rows, "page": page, "chosen": chosen},
    )


@require_safe
@login_required
def arena(request: SignedInRequest, project: str, pk: int) -> HttpResponse:
    """Members of the project: the standings, hidden from people who rate one of its runs blind."""
    arena = _visible_arena(request, project, pk)
    pairings = list_pairings(arena)
    context = {
        "section": "rate",
        "arena": arena,
        "pairs": sum(pairing.size for pairing in pairings),
        "same": sum(pairing.same for pairing in pairings),
        "is_open": bool(seen_among(request.user, [arena])),
        "may_steer": _may_steer(request, arena),
        "may_judge": arena.is_open and Arena.objects.judged_by(request.user).filter(pk=pk).exists(),
    }
    if context["is_open"]:
        standings = compute_standings(arena)
        rows = build_standings_rows(standings)
        context |= {
            "standings": standings,
            "left": standings.left,
            "rows": rows,
            "labels": [row.label for row in rows],
            "matrix": list(zip(rows, build_score_matrix(standings), strict=True)),
            "domains": list_domain_scores(standings),
        }
    return render(request, "dashboard/arena.html", context)


@require_safe
@login_required
def votes_csv(request: SignedInRequest, project: str, pk: int) -> HttpResponseBase:
    """Owners and researchers of the project: every vote ever cast, with who wrote what."""
    arena = _steered_arena(request, project, pk)
    return stream_download(
        request, votes_file(arena), "text/csv; charset=utf-8", f"{project}-arena-{pk}-votes.csv"
    )


@require_POST
@login_required
def open_or_close_arena(request: SignedInRequest, project: str, pk: int, verb: str) -> HttpResponse:
    """Owners and researchers of the project: close the arena, or open it again."""
    arena = _steered_arena(request, project, pk)
    if verb not in ACTS:
        raise Http404(f"unknown action {verb}: use close or open")
    action, words = ACTS[verb]
    action(arena, request.user)
    messages.success(request, words)
    return redirect("arena", project, pk)


@require_POST
@login_required
def make_arena(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: an arena of the ticked evaluations."""
    run = steered_run(request, project, slug)
    try:
        again = _share(request.POST.get("again", ""))
        new_arena = create_arena(
            run.project, request.user, request.POST.get("title", ""), _ticked_ids(request), again
        )
    except ConfigError as wrong:
        return refused(request, run, wrong, "The arena was not created", "arena")
    messages.success(request, "Arena created. All raters of this project find it under Rate.")
    return redirect("arena", project, new_arena.pk)


def _ticked_ids(request: SignedInRequest) -> list[int]:
    texts = request.POST.getlist("contestant")[:MAX_SELECTED]
    return [int(text) for text in texts if text.isascii() and text.isdigit() and len(text) < 19]


def _share(text: str) -> float:
    """Convert per cent to a share; empty is 0. Raise ConfigError."""
    try:
        return float(text or 0) / 100
    except ValueError:
        raise ConfigError({"again": "must be a number from 0 to 100"}) from None


def _visible_arena(request: SignedInRequest, project: str, pk: int) -> Arena:
    """Return the arena if the user may see it. Raise Http404."""
    return get_object_or_404(
        Arena.objects.visible_to(request.user).select_related("project", "taskset", "by"),
        project__slug=project,
        pk=pk,
    )


def _steered_arena(request: SignedInRequest, project: str, pk: int) -> Arena:
    """Return the arena if the user may steer its runs.

    Raises Http404 for a stranger, PermissionDenied for people who may not steer.
    """
    arena = _visible_arena(request, project, pk)
    if not _may_steer(request, arena):
        raise PermissionDenied("Only owners and researchers of this project can do this.")
    return arena


def _may_steer(request: SignedInRequest, arena: Arena) -> bool:
    return Project.objects.run_by(request.user).filter(pk=arena.project_id).exists()
