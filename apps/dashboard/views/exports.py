"""Exports of what people said: a page with a form, and the files it gives."""

from datetime import datetime, time

from django import forms
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.dashboard.access import steered_run
from apps.dashboard.views.weights import exports_of
from apps.feedback.evaluation.exporting import COLUMNS as EVALUATION_COLUMNS
from apps.feedback.exporting.rows import Wanted
from apps.feedback.exporting.schemas import COLUMNS, KINDS
from apps.feedback.exporting.serving import file_response
from apps.feedback.exporting.writing import FORMATS
from apps.feedback.forms import FORMS
from apps.feedback.models import Rating
from apps.runs.exporting.reading import Figures
from apps.runs.models import Run

WORDS = {
    "votes": ("Votes", "Everything that was said, one row each; what was replaced or taken back is marked, never left out."),
    "groups": ("Groups", "For GRPO: a prompt with all its answers, their rewards and advantages, and people's mean."),
    "pairs": ("Pairs", "For DPO and reward models: prompt, chosen, rejected and a margin; from comparisons, ratings and rewrites."),
    "demonstrations": ("Demonstrations", "For SFT: conversations that end as a person wrote it."),
    "turn_labels": ("Turn labels", "For process reward models: the turns of an answer with a label each."),
}
VERSIONS_OFFERED = 100  # the newest
NAMES_SHOWN = 12  # of its figures
FORMS_USED = 500  # newest ratings that are looked at for the forms to offer


class Filter(forms.Form):
    """What the address asks for; the same fields for the page and for the files."""

    form = forms.ChoiceField(required=False, choices=[("", "any"), *((name, name) for name in FORMS)])
    since = forms.DateField(required=False)
    pseudonyms = forms.BooleanField(required=False)

    def wanted(self, run: Run) -> Wanted:
        since = self.cleaned_data["since"]
        moment = timezone.make_aware(datetime.combine(since, time())) if since else None
        return Wanted(run, self.cleaned_data["form"], moment, self.cleaned_data["pseudonyms"])


@require_safe
@login_required
def exports(request: HttpRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: what can be taken out of the run, and in which columns."""
    run = steered_run(request, project, slug)
    chosen = Filter(request.GET)
    chosen.is_valid()  # what is wrong in the address is left empty here, and refused with the file
    used = Rating.objects.filter(run=run).order_by("-pk").values_list("form", flat=True)[:FORMS_USED]
    names = Figures(run).names
    context = {
        "section": "runs", "tab": "exports", "run": run, "metric_names": names[:NAMES_SHOWN],
        "more_metrics": len(names) > NAMES_SHOWN, "asked": chosen.cleaned_data,
        "used": sorted({*used, chosen.cleaned_data.get("form")} - {"", None}),
        "evaluation_columns": list(EVALUATION_COLUMNS), "has_ratings": Rating.objects.filter(run=run).exists(),
        **_model(run, request),
        "kinds": [{"kind": kind, "title": WORDS[kind][0], "why": WORDS[kind][1], "columns": list(COLUMNS[kind])} for kind in KINDS],
    }  # fmt: skip
    return render(request, "dashboard/exports.html", context)


def _model(run: Run, request: HttpRequest) -> dict:
    """The version that is asked for, else the newest, and what it can be exported as."""
    newest = run.weight_versions.order_by("-version")[:VERSIONS_OFFERED]
    there = [one for one in newest if one.has_folder]
    if not there:
        return {"version": None}
    asked = request.GET.get("version")
    found = next((one for one in there if str(one.version) == asked), there[0])
    found.run = run
    numbers = [one.version for one in there]
    return {"version": found, "versions": numbers, **exports_of(found)}


@require_safe
@login_required
def export(request: HttpRequest, project: str, slug: str, what: str, format: str) -> HttpResponse:
    """Owners and researchers of the project: the file, streamed as it is read."""
    run = steered_run(request, project, slug)
    chosen = Filter(request.GET)
    if what not in KINDS or format not in FORMATS:
        raise Http404(f"no export {what}.{format}")
    if not chosen.is_valid():
        words = "; ".join(f"{field}: {' '.join(errors)}" for field, errors in chosen.errors.items())
        return HttpResponse(words, status=422, content_type="text/plain")
    return file_response(request, what, chosen.wanted(run), format)
