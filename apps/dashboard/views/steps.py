"""Why a curve moved: what happened around one step of a run, as a page and as a drawer."""

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_safe

from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import may_see_judgements, may_steer, trained_run
from apps.dashboard.step_report import StepReport, build_step_report
from apps.runs.models import Run, TrainStep

MAX_INTEGER = 2**31 - 1


@require_safe
@login_required
def find_step(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project: go to the step `?number=`, by default to the newest."""
    run = trained_run(request, project, slug)
    if not run.step:
        messages.info(request, "This run has no steps yet.")
        return redirect("run", project, slug)
    step_field = forms.IntegerField(required=False, min_value=1, max_value=run.step)
    try:
        number = step_field.clean(request.GET.get("number", ""))
    except forms.ValidationError:
        messages.error(request, f"Step: enter a whole number from 1 to {run.step:,}.")
        number = None
    return redirect("run-step", project, slug, number or run.step)


@require_safe
@login_required
def run_step(request: SignedInRequest, project: str, slug: str, number: int) -> HttpResponse:
    """Members of the run's project: a step as a page. Blind raters see that they rate blind."""
    return render(request, "dashboard/run_step.html", _context(request, project, slug, number))


@require_safe
@login_required
def run_step_drawer(request: SignedInRequest, project: str, slug: str, number: int) -> HttpResponse:
    """Members of the run's project: the same as a fragment, for the drawer beside the charts."""
    context = _context(request, project, slug, number) | {"is_drawer": True}
    return render(request, "dashboard/_run_step.html", context)


def _context(request: SignedInRequest, project: str, slug: str, number: int) -> dict:
    run = trained_run(request, project, slug)
    committed = run.steps.filter(state=TrainStep.State.COMMITTED)
    step = get_object_or_404(committed, number=min(number, MAX_INTEGER))
    is_open = may_see_judgements(request, run)
    return {
        "section": "runs",
        "run": run,
        "step": step,
        "is_open": is_open,
        "report": _report(request, run, step) if is_open else None,
    }


def _report(request: SignedInRequest, run: Run, step: TrainStep) -> StepReport:
    return build_step_report(run, step, request.user, may_steer(request, run))
