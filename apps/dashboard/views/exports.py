"""Exports of ratings and other data: a page with a form, and the files."""

from datetime import datetime, time

from django import forms
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import steered_run
from apps.dashboard.views.weights import list_export_formats
from apps.evaluation.exporting import COLUMNS as EVALUATION_COLUMNS
from apps.feedback.exporting.rows import RowSelection
from apps.feedback.exporting.schemas import COLUMNS, KINDS
from apps.feedback.exporting.serving import file_response
from apps.feedback.exporting.writing import FORMATS
from apps.feedback.forms import FORMS
from apps.feedback.models import Rating
from apps.runs.exporting.reading import RunMetrics
from apps.runs.models import Run

WORDS = {
    "votes": (
        "Votes",
        "One row per rating. Replaced and undone ratings are included and marked.",
    ),
    "groups": (
        "Groups",
        "For GRPO: a prompt with its replies, rewards, advantages and people’s mean.",
    ),
    "pairs": (
        "Pairs",
        (
            "For DPO and reward models: prompt, chosen, rejected and margin, from comparisons,"
            " ratings and rewrites."
        ),
    ),
    "demonstrations": (
        "Demonstrations",
        ("For SFT: conversations that end with a reply written by a person."),
    ),
    "turn_labels": (
        "Turn labels",
        "For process reward models: the turns of a reply, each with a label.",
    ),
}
VERSIONS_OFFERED = 100  # the newest
NAMES_SHOWN = 12  # metrics named on the page
FORMS_USED = 500  # newest ratings that are read for the forms to offer


class Filter(forms.Form):
    """The filter in the URL; the same fields for the page and the files."""

    form = forms.ChoiceField(
        required=False, choices=[("", "any"), *((name, name) for name in FORMS)]
    )
    since = forms.DateField(required=False)
    pseudonyms = forms.BooleanField(required=False)

    def selection(self, run: Run) -> RowSelection:
        since = self.cleaned_data["since"]
        moment = timezone.make_aware(datetime.combine(since, time())) if since else None
        return RowSelection(run, self.cleaned_data["form"], moment, self.cleaned_data["pseudonyms"])


@require_safe
@login_required
def exports(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: what can be exported, and its columns."""
    run = steered_run(request, project, slug)
    chosen = Filter(request.GET)
    chosen.is_valid()  # invalid parameters are empty here, and refused with the file
    used = (
        Rating.objects.filter(run=run).order_by("-pk").values_list("form", flat=True)[:FORMS_USED]
    )
    names = RunMetrics(run).names
    context = {
        "section": "runs",
        "run": run,
        "metric_names": names[:NAMES_SHOWN],
        "more_metrics": len(names) > NAMES_SHOWN,
        "filters": chosen.cleaned_data,
        "used": sorted({form for form in (*used, chosen.cleaned_data.get("form")) if form}),
        "evaluation_columns": list(EVALUATION_COLUMNS),
        "has_ratings": Rating.objects.filter(run=run).exists(),
        **_model(run, request),
        "kinds": [
            {
                "kind": kind,
                "title": WORDS[kind][0],
                "why": WORDS[kind][1],
                "columns": list(COLUMNS[kind]),
            }
            for kind in KINDS
        ],
    }
    return render(request, "dashboard/exports.html", context)


def _model(run: Run, request: SignedInRequest) -> dict:
    """Return the requested version, else the newest, and its export formats."""
    newest = run.weight_versions.order_by("-version")[:VERSIONS_OFFERED]
    available = [candidate for candidate in newest if candidate.has_folder]
    if not available:
        return {"version": None}
    version_name = request.GET.get("version")
    version = next(
        (candidate for candidate in available if str(candidate.version) == version_name),
        available[0],
    )
    version.run = run
    numbers = [candidate.version for candidate in available]
    return {"version": version, "versions": numbers, **list_export_formats(version)}


@require_safe
@login_required
def export_run_file(
    request: SignedInRequest, project: str, slug: str, what: str, format: str
) -> HttpResponseBase:
    """Owners and researchers of the project: the file, streamed as it is read."""
    run = steered_run(request, project, slug)
    chosen = Filter(request.GET)
    if what not in KINDS or format not in FORMATS:
        raise Http404(f"no export {what}.{format}")
    if not chosen.is_valid():
        words = "; ".join(
            f"{field}: {' '.join(map(str, errors))}" for field, errors in chosen.errors.items()
        )
        return HttpResponse(words, status=422, content_type="text/plain")
    return file_response(request, what, chosen.selection(run), format)
