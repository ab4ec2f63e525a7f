"""Points of a run's curves: for its charts, as a file, and changes since the last poll."""

import csv
from collections.abc import Iterator, Sequence
from itertools import groupby

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse, HttpResponseBase, JsonResponse
from django.views.decorators.http import require_safe

from apps.accounts.downloads import csv_cell, in_chunks, stream_download
from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import may_see_judgements, seen_run
from apps.dashboard.charts import choose_charts
from apps.dashboard.curves import curves_document, list_changes
from apps.dashboard.fragments import digest_fragment
from apps.dashboard.overview import NO_NAMES, ChartQuery
from apps.dashboard.views.runs import render_run_parts
from apps.runs.models import Metric, Run

ROWS_AT_ONCE = 5_000


@require_safe
@login_required
def run_curves(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project: a window of its curves with the marks of changes.

    Empty for people who rate the run blind.
    """
    run = seen_run(request, project, slug)
    query = ChartQuery(request.GET)
    if query.errors:
        return JsonResponse({"errors": query.errors}, status=400)
    if not may_see_judgements(request, run):
        return JsonResponse(
            {"step": run.step, "wide": 1, "steps": [], "x": [], "series": {}, "changes": []}
        )
    return JsonResponse(
        {**curves_document(run, query.window(_names(run, query))), "changes": _marks(run, query)}
    )


@require_safe
@login_required
def run_pulse(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project: new points and changed fragments of the page.

    The document is {"curves": points after the step `after`, "parts": changed fragments}.
    `part=now:DIGEST` names a fragment that the page shows and its digest; the response has it with
    its new digest unless that is the same. `marks=1` asks for the marks of changes again.
    """
    run = seen_run(request, project, slug)
    query = ChartQuery(request.GET)
    if query.errors:
        return JsonResponse({"errors": query.errors}, status=400)
    is_open = may_see_judgements(request, run)
    known_digests = dict(part.partition(":")[::2] for part in request.GET.getlist("part"))
    parts = {
        name: {"html": html, "digest": digest_fragment(html)}
        for name, html in render_run_parts(request, run, known_digests, is_open).items()
    }
    answer = {
        "step": run.step,
        "parts": {
            name: part for name, part in parts.items() if part["digest"] != known_digests[name]
        },
    }
    if is_open and run.step > query.given("after", 0):
        answer["curves"] = curves_document(run, query.window(_names(run, query)))
    if is_open and request.GET.get("marks"):
        answer["changes"] = _marks(run, query)
    return JsonResponse(answer)


@require_safe
@login_required
def run_curves_csv(request: SignedInRequest, project: str, slug: str) -> HttpResponseBase:
    """Members of the run's project who see its ratings: a window of metrics as CSV.

    There is a row for every step, and a column for each named metric.
    """
    run = seen_run(request, project, slug)
    query = ChartQuery(request.GET)
    if query.errors:
        return HttpResponse("\n".join(query.problems), status=400, content_type="text/plain")
    if not may_see_judgements(request, run):
        return HttpResponse(
            "You rate this run blind, so rewards are hidden.", status=403, content_type="text/plain"
        )
    names = query.given("names", sorted(_names(run, query)))
    lines = in_chunks(line.encode() for line in _lines(run, query, names))
    return stream_download(
        request,
        lines,
        "text/csv; charset=utf-8",
        f"{run.slug}-{names[0] if len(names) == 1 else 'curves'}.csv",
    )


def _marks(run: Run, query: ChartQuery) -> list[dict]:
    return list_changes(
        run, query.axis, query.given("from_step", 1) - 1, query.cleaned_data.get("to_step")
    )


def _names(run: Run, query: ChartQuery) -> set[str]:
    """Return the named metrics; else those of the page's charts and the chosen ones."""
    requested_names = query.given("names", NO_NAMES)
    return (
        set(requested_names)
        if requested_names
        else choose_charts(run.settings.algorithm).names | set(query.given("also", NO_NAMES))
    )


class _Line:
    """A file for a CSV writer that returns each line."""

    def write(self, line: str) -> str:
        return line


def _lines(run: Run, query: ChartQuery, names: Sequence[str]) -> Iterator[str]:
    writer = csv.writer(_Line())
    yield writer.writerow(["step", "weight_version", "committed_at", *map(csv_cell, names)])
    first = query.given("from_step", 1)
    last = min(query.given("to_step", run.step), run.step)
    for since in range(first, last + 1, ROWS_AT_ONCE):
        until = min(since + ROWS_AT_ONCE - 1, last)
        steps = run.steps.filter(number__range=(since, until)).values_list(
            "number", "version", "committed_at"
        )
        columns_by_step = {
            number: (version, at.isoformat() if at else "") for number, version, at in steps
        }
        rows = Metric.objects.filter(run=run, name__in=names, step__range=(since, until)).order_by(
            "step"
        )
        for step, points in groupby(
            rows.values_list("step", "name", "value"), key=lambda row: row[0]
        ):
            values = {name: value for _, name, value in points}
            yield writer.writerow(
                [
                    step,
                    *columns_by_step.get(step, ("", "")),
                    *(values.get(name, "") for name in names),
                ]
            )
