"""Logs: of a run, of a worker, or of everything that the user may see.

Newest first, searchable, and updated while they grow.
"""

import hashlib

from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpResponse, HttpResponseBase, HttpResponseNotModified
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from apps.accounts.downloads import in_chunks, stream_download
from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import may_see_judgements, seen_run
from apps.dashboard.log_search import LogSearch, as_jsonl, lines_for
from apps.runs.models import LogLine, Worker


@require_safe
@login_required
def run_logs(request: SignedInRequest, project: str, slug: str) -> HttpResponseBase:
    """Members of the run's project; blind raters get an explanation.

    Log lines reveal how the run learns.
    """
    run = seen_run(request, project, slug)
    if not may_see_judgements(request, run):
        return render(
            request, "dashboard/logs.html", {"section": "runs", "run": run, "is_open": False}
        )
    return _answer(
        request, lines_for(request.user).filter(run=run), run.slug, section="runs", run=run
    )


@require_safe
@login_required
def worker_logs(request: SignedInRequest, pk: int) -> HttpResponseBase:
    """Everybody signed in: the worker's lines about visible runs; operators see all lines."""
    worker = get_object_or_404(Worker.every, pk=pk)
    among = LogLine.objects.filter(worker=worker.key)
    return _answer(
        request,
        lines_for(request.user).filter(worker=worker.key),
        worker.key,
        among,
        section="workers",
        worker=worker,
    )


@require_safe
@login_required
def logs(request: SignedInRequest) -> HttpResponseBase:
    """Everybody signed in: the lines of visible runs; operators see those of all processes."""
    return _answer(
        request, lines_for(request.user), "all", LogLine.objects.all(), section="workers"
    )


@require_safe
@login_required
def show_log_line(request: SignedInRequest, pk: int) -> HttpResponse:
    """People who may read the line: all its fields, as a page or alone (`part=details`)."""
    line = get_object_or_404(lines_for(request.user), pk=pk)
    template = (
        "dashboard/_log_line.html"
        if request.GET.get("part") == "details"
        else "dashboard/log_line.html"
    )
    return render(request, template, {"section": "runs" if line.run else "workers", "line": line})


def _answer(
    request: SignedInRequest,
    lines: QuerySet[LogLine],
    name: str,
    among: QuerySet[LogLine] | None = None,
    **context: object,
) -> HttpResponseBase:
    """Return a page, its lines alone (`part=lines`; 304 if unchanged), or a file (`as=jsonl`).

    `among` is the set that is scanned for lines that the user may read, if that is not all of it.
    """
    query = request.GET.copy()
    part, form = (query.pop(option, [""])[-1] for option in ("part", "as"))
    # The query that the page's links keep; the stub allows only an immutable one.
    request.GET = query  # type: ignore[assignment]
    search = LogSearch(query)
    if form == "jsonl":
        if not search.is_valid():
            words = "; ".join(
                f"{field}: {' '.join(map(str, errors))}" for field, errors in search.errors.items()
            )
            return HttpResponse(words, status=422, content_type="text/plain")
        file = f"log-{name.replace('@', '-').replace(':', '-')}.jsonl"
        return stream_download(
            request, in_chunks(as_jsonl(search.matching(lines))), "application/x-ndjson", file
        )
    page = search.page(lines, request, None if request.user.is_superuser else among)
    context |= {"page": page, "search": search, "is_open": True, **_addresses(request)}
    if part != "lines":
        return render(
            request, "dashboard/logs.html", context, status=200 if search.is_valid() else 422
        )
    tag = f'"{hashlib.sha256(repr([line.pk for line in page.rows]).encode()).hexdigest()[:24]}"'
    if request.headers.get("If-None-Match") == tag:
        return HttpResponseNotModified(headers={"ETag": tag})
    answer = render(request, "dashboard/_log_lines.html", context)
    answer["ETag"], answer["Cache-Control"] = tag, "no-cache, private"
    return answer


def _addresses(request: SignedInRequest) -> dict[str, object]:
    """Return the URLs of the page's other forms; only the newest page is polled."""
    query = request.GET.copy()
    is_newest = "before" not in query and "after" not in query
    lines = query.copy()
    lines["part"] = "lines"
    for cursor in ("before", "after"):
        query.pop(cursor, None)
    query["as"] = "jsonl"
    return {
        "follows": f"{request.path}?{lines.urlencode()}" if is_newest else "",
        "file": f"{request.path}?{query.urlencode()}",
    }
