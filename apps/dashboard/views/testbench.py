"""The test bench of a project: try a scorer on replies, and keep some as a regression set."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.models import Project
from apps.accounts.requests import SignedInRequest
from apps.dashboard.paging import load_page
from apps.dashboard.testbench import (
    MAX_ID,
    SETS_OFFERED,
    BenchForm,
    error_sentence,
    filled_by,
    filled_by_rollout,
    offered,
    read_as,
    reference_in,
)
from apps.rewards import scorers
from apps.rewards.models import RegressionCheck, Trial
from apps.rewards.testbench.asking import (
    Refused,
    ask_check,
    delete_case,
    judges_alone,
    keep_case,
    queue_trial,
)
from apps.rewards.testbench.limits import MAX_CASES, MAX_REPLIES
from apps.rewards.testbench.scoring import find_scorer_version
from apps.rollouts.models import Rollout
from apps.runs.models import Run

CASES_SHOWN = 50
TRIALS_SHOWN = 10
MAX_NOTE_LENGTH = 300
UNDECIDED = "undecided"


@dataclass(frozen=True)
class Row:
    """A reply of a trial: its verdict, if there is one, and the fields that make it a case."""

    place: int
    text: str
    verdict: Mapping[str, Any] | None = None
    read: str = ""
    reference: str = ""
    expected: str = ""
    note: str = ""
    wrong: str = ""

    @property
    def number(self) -> int:
        return self.place + 1

    @property
    def kind(self) -> str:
        """Return which kind of verdict it is: paid, refused, charged or none."""
        value = self.verdict["value"] if self.verdict else None
        if value is None:
            return "none"
        return "paid" if value > 0 else "refused" if value == 0 else "charged"


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def bench(request: SignedInRequest, project: str) -> HttpResponse:
    """Owners and researchers of the project: a form that has replies scored.

    `rollout=` and `case=` fill it from a stored rollout or case.
    """
    managed_project = _project(request, project)
    if request.method != "POST":
        return _page(
            request,
            managed_project,
            BenchForm(managed_project, initial=_initial(request, managed_project)),
        )
    form = BenchForm(managed_project, request.POST)
    if request.POST.get("act") == "add":  # another box, nothing is checked yet
        filled = BenchForm(managed_project, initial=_as_typed(form))
        filled.add_box()
        return _page(request, managed_project, filled)
    if form.is_valid() and form.trial_request is not None:
        try:
            return redirect(
                "test-bench-trial",
                project,
                queue_trial(managed_project, request.user, form.trial_request).pk,
            )
        except Refused as refused:
            form.add_error(None, f"{str(refused).capitalize()}.")
    return _page(request, managed_project, form, status=422)


@require_safe
@login_required
def trial(request: SignedInRequest, project: str, pk: int) -> HttpResponse:
    """Owners and researchers of the project: the verdicts, beside the form as it was filled."""
    shown_trial = _trial(request, project, pk)
    form = BenchForm(shown_trial.project, initial=filled_by(shown_trial))
    return _page(request, shown_trial.project, form, shown_trial)


@require_safe
@login_required
def trial_now(request: SignedInRequest, project: str, pk: int) -> HttpResponse:
    """Owners and researchers of the project: the polled part of the page."""
    trial = _trial(request, project, pk)
    return render(request, "dashboard/_testbench_now.html", _trial_context(trial))


@require_POST
@login_required
def keep_as_case(request: SignedInRequest, project: str, pk: int) -> HttpResponse:
    """Owners and researchers of the project: make a scored reply a case of the regression set."""
    trial = _trial(request, project, pk)
    place = _place(request, trial)
    expected = request.POST.get("expected", "").strip()
    note = request.POST.get("note", "").strip()
    try:
        reward = _expected(expected)
        if len(note) > MAX_NOTE_LENGTH:
            raise Refused(f"note: it has {len(note)} characters; the maximum is {MAX_NOTE_LENGTH}")
        case, is_new = keep_case(trial, place, reward, note, request.user)
    except Refused as refused:
        wrong = {place: (expected, note, error_sentence(refused))}
        form = BenchForm(trial.project, initial=filled_by(trial))
        return _page(request, trial.project, form, trial, typed=wrong, status=422)
    what = "added to" if is_new else "changed in"
    state = "holds" if case.holds else "does not hold yet"
    messages.success(request, f"Case {case.pk} {what} the regression set; it {state}.")
    return redirect("test-bench-trial", project, pk)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def cases(request: SignedInRequest, project: str) -> HttpResponse:
    """Owners and researchers of the project: its regression set; a POST scores it again."""
    managed_project = _project(request, project)
    if request.method == "POST":
        try:
            ask_check(managed_project, request.user)
        except Refused as refused:
            messages.error(request, f"Not checked: {refused}.")
        return redirect("test-bench-cases", project)
    return render(
        request, "dashboard/testbench_cases.html", _cases_context(request, managed_project)
    )


@require_safe
@login_required
def cases_now(request: SignedInRequest, project: str) -> HttpResponse:
    """Owners and researchers of the project: the polled part of the page."""
    context = _cases_context(request, _project(request, project))
    return render(request, "dashboard/_testbench_cases_now.html", context)


@require_POST
@login_required
def remove_case(request: SignedInRequest, project: str, pk: int) -> HttpResponse:
    """Owners and researchers of the project: delete a case."""
    managed_project = _project(request, project)
    delete_case(get_object_or_404(managed_project.regression_cases, pk=pk), request.user)
    messages.success(request, f"Case {pk} deleted.")
    return redirect("test-bench-cases", project)


def _project(request: SignedInRequest, slug: str) -> Project:
    """Return the project if the user may run it.

    Raises Http404 for a stranger, PermissionDenied for other members.
    """
    project = get_object_or_404(Project.objects.visible_to(request.user).distinct(), slug=slug)
    if not Project.objects.run_by(request.user).filter(pk=project.pk).exists():
        raise PermissionDenied("Only owners and researchers of this project can test its scorers.")
    return project


def _trial(request: SignedInRequest, project: str, pk: int) -> Trial:
    managed_project = _project(request, project)
    return get_object_or_404(managed_project.trials.select_related("by", "project"), pk=pk)


def _initial(request: SignedInRequest, project: Project) -> dict[str, Any]:
    """Return the form's first values: of a rollout, a case, or a scorer that the URL names."""
    if number := request.GET.get("rollout", ""):
        visible_rollouts = Rollout.objects.filter(
            run__project=project, run__in=Run.objects.visible_to(request.user)
        )
        beside = ("run__project", "group__task__taskset")
        rollout = get_object_or_404(visible_rollouts.select_related(*beside), pk=_id(number))
        return filled_by_rollout(rollout)
    if number := request.GET.get("case", ""):
        return filled_by(get_object_or_404(project.regression_cases, pk=_id(number)))
    return {"scorer": request.GET.get("scorer", "")}


def _id(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19 and int(text) <= MAX_ID):
        raise Http404(text)
    return int(text)


def _as_typed(form: BenchForm) -> dict[str, Any]:
    """Return posted fields as initial values, so that nothing is validated and nothing is lost."""
    values = {name: form[name].value() for name in form.fields}
    return {**values, "reply": form.replies}


def _place(request: SignedInRequest, trial: Trial) -> int:
    place = request.POST.get("place", "")
    if not (place.isascii() and place.isdecimal() and len(place) < 4):
        raise Http404("no such reply")
    if int(place) >= len(trial.verdicts):
        raise Http404("that reply has no verdict")
    return int(place)


def _expected(text: str) -> float | None:
    """Return an expected reward; None for "undecided". Raise Refused."""
    if text.lower() in ("", UNDECIDED):
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise Refused(f"expected: enter a number such as 0.5, or “{UNDECIDED}” for no reward")
    return value


def _page(
    request: SignedInRequest,
    project: Project,
    form: BenchForm,
    trial: Trial | None = None,
    typed: Mapping[int, tuple[str, str, str]] | None = None,
    status: int = 200,
) -> HttpResponse:
    regression_cases = project.regression_cases
    context = {
        "section": "runs",
        "project": project,
        "form": form,
        "groups": offered(project, str(form["scorer"].value() or "")),
        "tasksets": project.tasksets.order_by("-pk").values_list("slug", flat=True)[:SETS_OFFERED],
        "has_room": len(form.replies) < MAX_REPLIES,
        "max_replies": MAX_REPLIES,
        "cases": regression_cases.count(),
        "differ": regression_cases.filter(holds=False).count(),
        "trials": project.trials.select_related("by")[:TRIALS_SHOWN],
        **(_trial_context(trial, typed) if trial else {}),
    }
    return render(request, "dashboard/testbench.html", context, status=status)


def _trial_context(
    trial: Trial, typed: Mapping[int, tuple[str, str, str]] | None = None
) -> dict[str, Any]:
    asks = trial.scorer in scorers.scorer_names() and scorers.find_scorer(trial.scorer).asks
    return {
        "trial": trial,
        "project": trial.project,
        "rows": [
            _row(trial, place, reply["text"], (typed or {}).get(place))
            for place, reply in enumerate(trial.replies)
        ],
        "judges_alone": judges_alone(trial.scorer),
        "asks": asks,
        "max_note_length": MAX_NOTE_LENGTH,
    }


def _row(trial: Trial, place: int, text: str, typed: tuple[str, str, str] | None) -> Row:
    if place >= len(trial.verdicts):
        return Row(place, text)
    verdict = trial.verdicts[place]
    value = verdict["value"]
    expected, note, wrong = typed or (UNDECIDED if value is None else f"{value:.12g}", "", "")
    read = read_as(verdict["details"])
    reference = reference_in(verdict["details"], trial.task["answer"])
    return Row(place, text, verdict, read, reference, expected, note, wrong)


def _cases_context(request: SignedInRequest, project: Project) -> dict[str, Any]:
    regression_cases = project.regression_cases
    only = request.GET.get("show", "") == "differ"
    page = load_page(
        (regression_cases.filter(holds=False) if only else regression_cases).select_related("by"),
        request,
        size=CASES_SHOWN,
    )
    versions = {case.scorer: find_scorer_version(project.pk, case.scorer) for case in page.rows}
    check = RegressionCheck.objects.filter(project=project).select_related("by").first()
    return {
        "section": "runs",
        "project": project,
        "page": page,
        "rows": [(case, versions[case.scorer]) for case in page.rows],
        "only": only,
        "cases": regression_cases.count(),
        "differ": regression_cases.filter(holds=False).count(),
        "limit": MAX_CASES,
        "check": check,
        "command": f"manage.py score --regress {project.slug}",
        "here": reverse("test-bench-cases", args=[project.slug]),
        "query": request.GET.urlencode(),
    }
