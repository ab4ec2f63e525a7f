"""The list of runs: search, order and pages; tags and notes of one run."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from apps.accounts.models import Project
from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import may_see_judgements, may_steer, seen_run, steered_run
from apps.dashboard.paging import load_page
from apps.dashboard.run_rows import build_run_rows, defer_for_rows, load_runs_in_order
from apps.dashboard.run_search import RunFilter
from apps.dashboard.views.deletions import list_run_deletions
from apps.runs import labelling
from apps.runs.models import Run

ROWS = 25


@require_safe
@login_required
def runs(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: the runs of their projects."""
    form = RunFilter(request.GET, request.user)
    form.is_valid()
    column, rising = form.order
    # Only ids are sorted: rows are loaded for the runs that are shown.
    matching = form.narrow(Run.objects.visible_to(request.user), request.user).only("pk")
    page = load_page(matching, request, size=ROWS, by=column, rising=rising)
    rows = build_run_rows(load_runs_in_order(page.rows), request.user)
    context = {
        "section": "runs",
        "form": form,
        "page": page,
        "rows": rows,
        "new_project": None if rows else form.project_without_runs(request.user),
        "query": request.GET.urlencode(),
        "sort": form.criteria.get("sort"),
        "direction": "ascending" if rising else "descending",
        "may_create": Project.objects.run_by(request.user).current().exists(),
        "may_delete": Project.objects.owned_by(request.user).exists(),
        "deletions": list_run_deletions(request.user, form.criteria.get("project", "")),
        "back": "previous" if column else "",
        "forth": "next" if column else "",
    }
    return render(request, "dashboard/runs.html", context)


@require_safe
@login_required
def runs_now(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: the current rows of the named runs that they may see."""
    visible = defer_for_rows(Run.objects.visible_to(request.user)).filter(
        pk__in=run_ids(request.GET.getlist("run")[:ROWS])
    )
    return render(
        request, "dashboard/_run_rows.html", {"rows": build_run_rows(list(visible), request.user)}
    )


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def labels(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Members read a run's tags and notes; owners and researchers write them.

    People who rate it blind see its tags alone.
    """
    if request.method == "POST":
        return _write(request, steered_run(request, project, slug))
    run = seen_run(request, project, slug)
    return render(
        request, "dashboard/run_labels.html", _labels(request, run, " ".join(run.tags), run.notes)
    )


def _write(request: SignedInRequest, run: Run) -> HttpResponse:
    tags = request.POST.get("tags", "")
    notes = request.POST.get("notes", "").replace("\r\n", "\n")
    try:
        if len(notes) > labelling.MAX_NOTES_LENGTH:
            raise ValueError(
                f"the notes have {len(notes):,} characters; the maximum is"
                f" {labelling.MAX_NOTES_LENGTH:,}"
            )
        labelling.label(run, labelling.tags_in(tags), notes, request.user)
    except ValueError as error:
        messages.error(request, f"Nothing was changed: {error}.")
        return render(
            request, "dashboard/run_labels.html", _labels(request, run, tags, notes), status=422
        )
    messages.success(request, "Saved.")
    return redirect("run-labels", run.project.slug, run.slug)


def _labels(request: SignedInRequest, run: Run, tags: str, notes: str) -> dict:
    return {
        "section": "runs",
        "run": run,
        "tags": tags,
        "notes": notes,
        "may_steer": may_steer(request, run),
        "is_open": may_see_judgements(request, run),
        "max_length": labelling.MAX_NOTES_LENGTH,
    }


def run_ids(values: list[str]) -> set[int]:
    """Return the ids in these texts. Raise Http404 for anything else."""
    if not all(key.isascii() and key.isdigit() and len(key) <= 18 for key in values):
        raise Http404("run must be an id")
    return {int(key) for key in values}
