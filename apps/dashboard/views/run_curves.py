"""Points of a run's curves: for its charts, as a file, and whatever is new of its page since it was asked last."""

import csv
from collections.abc import Iterator
from itertools import groupby

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_safe

from apps.accounts.downloads import csv_cell, download, in_chunks
from apps.dashboard.access import seen_run
from apps.dashboard.charts import charts_of
from apps.dashboard.curves import changes, drawn
from apps.dashboard.fragments import digest_of
from apps.dashboard.overview import Asked
from apps.dashboard.views.runs import parts_of
from apps.runs.blindness import sees_judgements
from apps.runs.models import Metric, Run

ROWS_AT_ONCE = 5_000


@gzip_page
@require_safe
@login_required
def run_curves(request: HttpRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project: a window of its curves, and the marks of changes; nothing for who judges it blind."""
    run, asked = seen_run(request, project, slug), Asked(request.GET)
    if asked.errors:
        return JsonResponse({"errors": asked.errors}, status=400)
    if not sees_judgements(request.user, run):
        return JsonResponse({"step": run.step, "wide": 1, "steps": [], "x": [], "series": {}, "changes": []})
    return JsonResponse({**drawn(run, asked.window(_names(run, asked))), "changes": _marks(run, asked)})


@gzip_page
@require_safe
@login_required
def run_pulse(request: HttpRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project: {"curves": what came after the step `after`, "parts": fragments of the page that changed}.

    `part=now:DIGEST` names a fragment that the page shows and what the page has of it; the answer brings it with its new
    digest unless that is the same. `marks=1` asks for the marks of changes again.
    """
    run, asked = seen_run(request, project, slug), Asked(request.GET)
    if asked.errors:
        return JsonResponse({"errors": asked.errors}, status=400)
    is_open, had = sees_judgements(request.user, run), dict(shown.partition(":")[::2] for shown in request.GET.getlist("part"))
    parts = {name: {"html": html, "digest": digest_of(html)} for name, html in parts_of(request, run, had, is_open).items()}
    answer = {"step": run.step, "parts": {name: part for name, part in parts.items() if part["digest"] != had[name]}}
    if is_open and run.step > asked.given("after", 0):
        answer["curves"] = drawn(run, asked.window(_names(run, asked)))
    if is_open and request.GET.get("marks"):
        answer["changes"] = _marks(run, asked)
    return JsonResponse(answer)


@require_safe
@login_required
def run_curves_csv(request: HttpRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project who see its judgements: every step of a window, a column for each metric that is named."""
    run, asked = seen_run(request, project, slug), Asked(request.GET)
    if asked.errors:
        return HttpResponse("\n".join(asked.problems), status=400, content_type="text/plain")
    if not sees_judgements(request.user, run):
        return HttpResponse("Who judges a run blind learns no rewards.", status=403, content_type="text/plain")
    names = asked.given("names", sorted(_names(run, asked)))
    lines = in_chunks(line.encode() for line in _lines(run, asked, names))
    return download(request, lines, "text/csv; charset=utf-8", f"{run.slug}-{names[0] if len(names) == 1 else 'curves'}.csv")


def _marks(run: Run, asked: Asked) -> list[dict]:
    return changes(run, asked.axis, asked.given("from_step", 1) - 1, asked.given("to_step", None))


def _names(run: Run, asked: Asked) -> set[str]:
    """Those named; else those of the page's own charts and what is picked besides."""
    named = asked.given("names", None)
    return set(named) if named else charts_of(run.settings.algorithm).names | set(asked.given("also", []))


class _Line:
    """What a CSV writer writes to: gives each line back."""

    def write(self, line: str) -> str:
        return line


def _lines(run: Run, asked: Asked, names: list[str]) -> Iterator[str]:
    writer = csv.writer(_Line())
    yield writer.writerow(["step", "weight_version", "committed_at", *map(csv_cell, names)])
    first, last = asked.given("from_step", 1), min(asked.given("to_step", run.step), run.step)
    for since in range(first, last + 1, ROWS_AT_ONCE):
        until = min(since + ROWS_AT_ONCE - 1, last)
        steps = run.steps.filter(number__range=(since, until)).values_list("number", "version", "committed_at")
        known = {number: (version, at.isoformat() if at else "") for number, version, at in steps}
        rows = Metric.objects.filter(run=run, name__in=names, step__range=(since, until)).order_by("step")
        for step, points in groupby(rows.values_list("step", "name", "value"), key=lambda row: row[0]):
            values = {name: value for _, name, value in points}
            yield writer.writerow([step, *known.get(step, ("", "")), *(values.get(name, "") for name in names)])
