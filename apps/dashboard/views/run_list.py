"""The list of runs: searched, sorted, paged by key; and what is done to those that are ticked."""

from collections.abc import Callable
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.models import Project
from apps.dashboard.access import may_steer, seen_run, steered_run
from apps.dashboard.comparing_runs import MOST_RUNS
from apps.dashboard.form_actions import posted_action
from apps.dashboard.paging import page_of
from apps.dashboard.run_rows import in_order, listed, rows_of
from apps.dashboard.run_search import RunFilter
from apps.runs import labelling
from apps.runs.blindness import sees_judgements
from apps.runs.models import NotPossible, Run

ROWS = 25
MOST_TICKED = 100


@require_safe
@login_required
def runs(request: HttpRequest) -> HttpResponse:
    """Everybody signed in: the runs of their projects."""
    form = RunFilter(request.GET, request.user)
    form.is_valid()
    by, rising = form.order
    # Sorted by their ids alone: what a row says is read of those that are shown.
    found = form.narrow(Run.objects.visible_to(request.user), request.user).only("pk")
    page = page_of(found, request, size=ROWS, by=by, rising=rising)
    rows = rows_of(in_order(page.rows), request.user)
    context = {
        "section": "runs", "form": form, "page": page, "rows": rows, "asked": request.GET.urlencode(),
        "sort": form.wanted.get("sort"), "direction": "ascending" if rising else "descending",
        "may_create": Project.objects.run_by(request.user).exists(),
        "back": "previous" if by else "", "forth": "next" if by else "",
    }  # fmt: skip
    return render(request, "dashboard/runs.html", context)


@require_safe
@login_required
def runs_now(request: HttpRequest) -> HttpResponse:
    """Everybody signed in: the rows of those of these runs that they may see, as they are now."""
    found = listed(Run.objects.visible_to(request.user)).filter(pk__in=_ids(request.GET.getlist("run")[:ROWS]))
    return render(request, "dashboard/_run_rows.html", {"rows": rows_of(found, request.user)})


def _archive(runs: list[Run], request: HttpRequest) -> str:
    return f"{labelling.archive(runs, request.user)} archived. They are found again with archive: archived."


def _restore(runs: list[Run], request: HttpRequest) -> str:
    return f"{labelling.restore(runs, request.user)} taken out of the archive."


def _tag(runs: list[Run], request: HttpRequest) -> str:
    return f"{labelling.tag(runs, _words(request), request.user)} tagged."


def _untag(runs: list[Run], request: HttpRequest) -> str:
    return f"{labelling.untag(runs, _words(request), request.user)} have the tag no more."


ACTS: dict[str, Callable[[list[Run], HttpRequest], str]] = {
    "archive": _archive, "restore": _restore, "tag": _tag, "untag": _untag,
}  # fmt: skip


def _compare(addresses: list[str]) -> str:
    if not 0 < len(addresses) <= MOST_RUNS:
        raise ValueError(f"{len(addresses)} runs are ticked: tick 1 to {MOST_RUNS} to compare them.")
    return f"{reverse('compare')}?{urlencode({'runs': ','.join(addresses)}, safe='/,')}"


def _clone(addresses: list[str]) -> str:
    if len(addresses) != 1:
        raise ValueError(f"{len(addresses)} runs are ticked: tick the one to clone.")
    [like] = addresses
    return f"{reverse('run-new')}?{urlencode({'project': like.partition('/')[0], 'like': like}, safe='/')}"


# The addresses of pages about runs that are ticked, which change nothing.
OPENS: dict[str, Callable[[list[str]], str]] = {"compare": _compare, "clone": _clone}


@require_POST
@login_required
def act_on_runs(request: HttpRequest) -> HttpResponse:
    """Owners and researchers: archive or tag the ticked runs of their projects, all or none. Who sees them compares and clones."""
    action = posted_action(request, (*OPENS, *ACTS))
    if opens := OPENS.get(action):
        return _opened(request, opens)
    try:
        runs = _ticked(request)
        if not runs:
            raise ValueError("Tick the runs first.")
        messages.success(request, ACTS[action](runs, request))
    except (ValueError, NotPossible) as error:
        messages.error(request, f"Nothing was changed: {error}")
    return _back(request)


def _opened(request: HttpRequest, opens: Callable[[list[str]], str]) -> HttpResponse:
    """The page that the ticked runs are taken to; back to the list with what is wrong with them."""
    seen = Run.objects.visible_to(request.user).filter(pk__in=_ids(request.POST.getlist("run")))
    try:
        return redirect(opens([f"{run.project.slug}/{run.slug}" for run in seen.select_related("project")]))
    except ValueError as error:
        messages.error(request, str(error))
        return _back(request)


def _back(request: HttpRequest) -> HttpResponse:
    return redirect(f"{reverse('runs')}?{request.POST.get('asked', '')}")


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def labels(request: HttpRequest, project: str, slug: str) -> HttpResponse:
    """Members read a run's tags and notes (those who judge it blind its tags alone); owners and researchers write them."""
    if request.method == "POST":
        return _write(request, steered_run(request, project, slug))
    run = seen_run(request, project, slug)
    return render(request, "dashboard/run_labels.html", _labels(request, run, " ".join(run.tags), run.notes))


def _write(request: HttpRequest, run: Run) -> HttpResponse:
    tags, notes = request.POST.get("tags", ""), request.POST.get("notes", "").replace("\r\n", "\n")
    try:
        if len(notes) > labelling.LONGEST_NOTES:
            raise ValueError(f"the notes have {len(notes):,} characters; {labelling.LONGEST_NOTES:,} is the most")
        labelling.label(run, labelling.tags_in(tags), notes, request.user)
    except ValueError as error:
        messages.error(request, f"Nothing was changed: {error}.")
        return render(request, "dashboard/run_labels.html", _labels(request, run, tags, notes), status=422)
    messages.success(request, "Saved.")
    return redirect("run-labels", run.project.slug, run.slug)


def _labels(request: HttpRequest, run: Run, tags: str, notes: str) -> dict:
    return {
        "section": "runs", "run": run, "tags": tags, "notes": notes, "may_steer": may_steer(request, run),
        "is_open": sees_judgements(request.user, run), "longest": labelling.LONGEST_NOTES,
    }  # fmt: skip


def _ticked(request: HttpRequest) -> list[Run]:
    """The runs whose boxes were ticked. Raises Http404 for one that is not seen, PermissionDenied for one not steered,
    ValueError for too many.
    """
    keys = _ids(request.POST.getlist("run"))
    if len(keys) > MOST_TICKED:
        raise ValueError(f"{len(keys)} runs are ticked; {MOST_TICKED} is the most at once.")
    if Run.objects.visible_to(request.user).filter(pk__in=keys).distinct().count() < len(keys):
        raise Http404("there is no such run")
    runs = list(Run.objects.steered_by(request.user).filter(pk__in=keys).distinct())
    if len(runs) < len(keys):
        raise PermissionDenied("Only owners and researchers of a project change its runs; untick those of others.")
    return runs


def _ids(said: list[str]) -> set[int]:
    if not all(key.isascii() and key.isdigit() and len(key) <= 18 for key in said):
        raise Http404("a run is named by its id")
    return {int(key) for key in said}


def _words(request: HttpRequest) -> list[str]:
    if words := labelling.tags_in(request.POST.get("words", "")):
        return words
    raise ValueError("type a tag first.")
