"""REST errors for requests that play an episode."""

from django.utils import timezone
from rest_framework import serializers
from rest_framework.exceptions import APIException

from apps.accounts.problems import Conflict, Gone
from apps.environments.errors import CannotPlay
from apps.environments.models import Environment
from apps.environments.playing import plays
from apps.runs.admission import groups_allowed
from apps.runs.models import Run

SOON_S = 1.0
LATER_S = 5.0
FIELD = {"bad_observation": "observation", "bad_reward": "reward"}


def convert_refusal(why: CannotPlay) -> APIException:
    """Return the error: 410 the episode has ended, 422 naming the field, else 409 wrong state."""
    if why.code == "closed":
        return Gone(str(why))
    if why.code in FIELD:
        field, _, words = str(why).partition(": ")
        return serializers.ValidationError(
            {field: [words]} if words else {FIELD[why.code]: [str(why)]}
        )
    return Conflict(str(why))


def why_none_waits(environment: Environment, run_id: int | None) -> tuple[str, float]:
    """Return (why no episode can be taken now, seconds until a retry is sensible)."""
    environment.refresh_from_db()
    if (
        environment.open_until
        and (pause_left_s := (environment.open_until - timezone.now()).total_seconds()) > 0
    ):
        return (
            (
                f"Its breaker is open after {environment.failures} failures in a row:"
                f" {environment.open_reason}"
            ),
            pause_left_s,
        )
    if plays(environment) >= environment.parallel:
        return (
            (
                "The maximum number of episodes at a time is reached (parallel: "
                f"{environment.parallel})."
            ),
            SOON_S,
        )
    runs = Run.objects.filter(
        project=environment.project_id,
        state=Run.State.RUNNING,
        config__environment__name=environment.name,
    )
    running = list(runs.filter(pk=run_id) if run_id is not None else runs)
    if not running:
        return f"No active run uses it{'' if run_id is None else f' (run {run_id})'}.", LATER_S
    if not any(groups_allowed(run.pace) for run in running):
        return (
            (
                "The run has opened all groups that max_staleness allows; its trainer must make a "
                "step first."
            ),
            SOON_S,
        )
    return (
        "No episode is waiting yet: the explorer opens episodes when its engine has room.",
        SOON_S,
    )
