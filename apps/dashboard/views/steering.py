"""Actions on a run: start, pause, resume, stop, run again, checkpoint, simulated rater."""

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from apps.accounts.reasons import NotAReason, check_reason
from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import steered_run
from apps.dashboard.form_actions import posted_action
from apps.runs.config import ConfigError
from apps.runs.models import NotPossible, Run
from apps.runs.run_repeats import run_again

ACTS: dict[str, Callable] = {
    "start": Run.start,
    "pause": Run.pause,
    "resume": Run.resume,
    "stop": Run.stop,
    "checkpoint": Run.ask_checkpoint,
}
AGAIN = "again"


@require_POST
@login_required
def steer_run(request: SignedInRequest, project: str, slug: str, verb: str) -> HttpResponse:
    """Owners and researchers of the project.

    Stopping requires typing the run's name, because it cannot be undone.
    """
    if verb not in (*ACTS, AGAIN):
        raise Http404(verb)
    run = steered_run(request, project, slug)
    if verb == "stop" and request.POST.get("name", "").strip() != run.slug:
        messages.error(request, f"Not stopped. To confirm, type the run's name: {run.slug}")
        return redirect("run", project, slug)
    if verb == AGAIN:
        return _run_again(request, run)
    try:
        ACTS[verb](run, by=request.user, reason=check_reason(request.POST.get("reason", "")))
    except NotAReason as error:
        messages.error(request, f"Nothing was changed: {error}")
    except NotPossible as error:
        messages.error(request, f"{error}.".capitalize())
    return redirect("run", project, slug)


def _run_again(request: SignedInRequest, run: Run) -> HttpResponse:
    """Repeat the run and redirect to the new run's page."""
    try:
        new = run_again(run, request.user)
    except (NotPossible, ConfigError) as error:
        messages.error(request, f"Can't run {run.slug} again: {error}.")
        return redirect("run", run.project.slug, run.slug)
    return redirect("run", new.project.slug, new.slug)


@require_POST
@login_required
def simulated_rater(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: switch the simulated rater on or off."""
    run = steered_run(request, project, slug)
    is_on = posted_action(request, ("true", "false"), "on") == "true"
    try:
        run.change_config(request.user, people={"simulated": is_on})
    except ConfigError as error:
        messages.error(request, f"The simulated rater was not changed: {error}.")
    return redirect("run", project, slug)
