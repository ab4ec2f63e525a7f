"""The tour: on to its next page, out of it, or from its beginning again."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from apps.dashboard.access import may_steer
from apps.dashboard.form_actions import posted_action
from apps.dashboard.tour import NOT_HERE, STEPS, demo_run, wake
from apps.runs.config import ConfigError
from apps.runs.models import NotPossible, Run


@require_POST
@login_required
def tour(request: HttpRequest) -> HttpResponse:
    """Everybody signed in: go to step `to`, or end the tour with 0.

    With `wake` the demo's run is started, resumed or run again first, for who may do that.
    """
    number = int(posted_action(request, [str(step) for step in range(len(STEPS) + 1)], "to"))
    run = demo_run(request.user)
    if run and "wake" in request.POST:
        run = _woken(request, run)
    request.user.tour_step = number if run else 0
    request.user.save(update_fields=["tour_step"])
    if request.user.tour_step:
        request.session.pop(NOT_HERE, None)
        return redirect(STEPS[number - 1].url(run))
    if number and run is None:
        messages.info(
            request, "There is no demo run here to take the tour on. `make demo` makes one."
        )
    return redirect("home")


def _woken(request: HttpRequest, run: Run) -> Run:
    """The run that learns now; the old one where that was refused, with the reason as a message."""
    if not may_steer(request, run):
        raise PermissionDenied("Only owners and researchers of this project steer its runs.")
    try:
        return wake(run, request.user)
    except (NotPossible, ConfigError) as error:
        messages.error(request, f"The demo does not go on: {error}.")
        return run
