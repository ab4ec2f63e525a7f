"""Actions of the tour: next page, leave, and restart."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import may_steer
from apps.dashboard.form_actions import posted_action
from apps.dashboard.tour import NOT_HERE, STEPS, demo_run, wake_demo_run
from apps.runs.config import ConfigError
from apps.runs.models import NotPossible, Run


@require_POST
@login_required
def tour(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: go to step `to`, or end the tour with 0.

    With `wake` the demo's run is started, resumed or repeated first, if the user may do that.
    """
    number = int(posted_action(request, [str(step) for step in range(len(STEPS) + 1)], "to"))
    run = demo_run(request.user)
    if run and "wake" in request.POST:
        run = _start_demo_run(request, run)
    request.user.tour_step = number if run else 0
    request.user.save(update_fields=["tour_step"])
    if run and request.user.tour_step:
        request.session.pop(NOT_HERE, None)
        return redirect(STEPS[number - 1].url(run))
    if number and run is None:
        messages.info(request, "The tour needs a demo run. To create one, run `make demo`.")
    return redirect("home")


def _start_demo_run(request: SignedInRequest, run: Run) -> Run:
    """Return the run that trains now; after a refusal the old one, with a message."""
    if not may_steer(request, run):
        raise PermissionDenied("Only owners and researchers of this project can control its runs.")
    try:
        return wake_demo_run(run, request.user)
    except (NotPossible, ConfigError) as error:
        messages.error(request, f"The demo run can’t continue: {error}.")
        return run
