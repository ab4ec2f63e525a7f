"""Replay a run without some data, or train from a new set of rewards; the form shows the numbers.

Nothing of the recorded run is changed.
"""

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods

from apps.accounts.models import User
from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import steered_run
from apps.dashboard.form_fields import choice_field
from apps.feedback.models import Rating
from apps.lineage.replaying.creating import NothingToReplay, Proposal, create_replay, propose
from apps.runs.config import ConfigError
from apps.runs.models import NotPossible, Run

RATERS_OFFERED = 50


class Choice(forms.Form):
    """The raters and tasks to leave out, and the name of the new run."""

    raters = forms.MultipleChoiceField(required=False)
    tasks = forms.CharField(required=False, max_length=400)
    rescoring = forms.IntegerField(required=False, min_value=1, max_value=2**63 - 1)
    slug = forms.SlugField(required=False, max_length=50)
    start = forms.BooleanField(required=False)

    def __init__(self, data: QueryDict | None, names: list[str]) -> None:
        super().__init__(data)
        choice_field(self, "raters").choices = [(name, name) for name in names]

    def clean_tasks(self) -> list[int]:
        numbers = self.cleaned_data["tasks"].replace(",", " ").split()
        if not all(
            number.isascii() and number.isdigit() and len(number) < 10 for number in numbers
        ):
            raise forms.ValidationError("Enter task numbers, for example 3, 17.")
        return [int(number) for number in numbers]


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def replay(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: preview a replay (GET), or create it (POST)."""
    run = steered_run(request, project, slug)
    names = rater_names(run)
    choice = Choice(request.POST if request.method == "POST" else request.GET, names)
    context = {"section": "runs", "run": run, "names": names, "choice": choice}
    if not choice.is_valid():
        return render(
            request,
            "dashboard/replay.html",
            context,
            status=422 if request.method == "POST" else 200,
        )
    data = choice.cleaned_data
    new_set = get_object_or_404(run.rescorings, pk=data["rescoring"]) if data["rescoring"] else None
    context["rescoring"] = new_set
    try:
        context["proposal"] = proposal = propose(run, data["raters"], data["tasks"], new_set)
        if request.method == "POST":
            return _create_and_start(request, proposal, data["slug"], data["start"])
    except (NothingToReplay, ConfigError, NotPossible) as refusal:
        context["refusal"] = f"{refusal}."
    return render(
        request, "dashboard/replay.html", context, status=409 if request.method == "POST" else 200
    )


def rater_names(run: Run) -> list[str]:
    """Return the raters of the run's replies; simulated raters come last. Bounded."""
    raters = Rating.objects.filter(run=run).order_by().values("rater").distinct()
    users = User.objects.filter(pk__in=raters).order_by("is_simulated", "username")
    return list(users.values_list("username", flat=True)[:RATERS_OFFERED])


def _create_and_start(
    request: SignedInRequest, proposal: Proposal, slug: str, start: bool
) -> HttpResponse:
    run = create_replay(proposal, slug or proposal.slug, proposal.title, request.user)
    if start:
        run.start(by=request.user)
    words = (
        "and started. Its trainer first copies the recorded data" if start else "but not started"
    )
    messages.success(request, f"Run {run.slug} created {words}.")
    return redirect("run", run.project.slug, run.slug)
