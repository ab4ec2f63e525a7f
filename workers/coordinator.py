"""The coordinator: a sweep that frees the leases of dead workers and closes overdue work.

The rules of `apps.runs.admission` decide from rows what may be done next. No worker waits for the
sweep: workers wake themselves, claims ignore expired leases, and the refiner closes overdue groups
itself.
"""

import time
from datetime import timedelta

import structlog
from celery import shared_task
from django.conf import settings
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.locking import retrying
from apps.environments.closing import close_left
from apps.environments.judging import send_on
from apps.environments.openenv.sessions import close_lost
from apps.evaluation import scheduled
from apps.evaluation.results import keep_results
from apps.feedback.calibration.watching import update_calibrations
from apps.feedback.group_completion import close_ended, close_overdue
from apps.feedback.interventions import refuse_unheard
from apps.leases.expiry import expire_all
from apps.rollouts.evaluation_groups import complete_measured
from apps.runs.models import Run, Worker

log = structlog.get_logger(__name__)
QUIET_S = 30.0  # between two complete sweeps while no run is live


_complete_at = -QUIET_S  # by the monotonic clock, when this process last made a complete sweep


@shared_task(name="sweep")
@retrying
def sweep(**_: object) -> None:
    """Make a complete sweep; without a live run only every QUIET_S, as nobody waits for one then.

    In between, only the workers are looked at.
    """
    global _complete_at
    if time.monotonic() - _complete_at < QUIET_S and not _is_any_run_live():
        note_sweep()
        return
    sweep_leases()
    _complete_at = time.monotonic()


def _is_any_run_live() -> bool:
    """Tell whether a run is running or paused, or ended so recently that it leaves open work."""
    is_live = Q(state__in=(Run.State.RUNNING, Run.State.PAUSED))
    return Run.objects.filter(is_live | Q(ended_at__gt=Now() - timedelta(seconds=60))).exists()


@retrying
def sweep_leases() -> None:
    """Free expired leases and close overdue work. Idempotent; two at once do no harm."""
    swept = {
        **{f"{kind}_leases_expired": count for kind, count in expire_all().items() if count},
        "acts_unheard": refuse_unheard(),
        "groups_overdue": close_overdue(),
        "groups_of_ended_runs": close_ended(),
        "episodes_left": close_left(),
        "play_sessions_lost": close_lost(),
        "groups_paid_for": send_on(),
        "evaluations_completed": complete_measured(),
    }
    if any(swept.values()):
        log.info("sweep_done", **swept)
    note_sweep()


def note_sweep() -> None:
    """Mark silent workers as stopped, and note on the rows of the control plane that it works."""
    bury_silent_workers()
    Worker.every.filter(role__in=Worker.OF_CONTROL, stopped_at=None).update(swept_at=Now())


@shared_task(name="summarize")
def summarize(**_: object) -> None:
    """Begin evaluations that are due, sum up complete ones, and keep calibrations current.

    A job separate from the sweep: its work grows with the ratings and evaluations that have come
    in.
    """
    if evaluated := scheduled.keep_up_all():
        log.info("evaluations_created", count=evaluated)
    keep_results()
    if calibrated := update_calibrations():
        log.info("scorers_calibrated", runs=calibrated)


def bury_silent_workers() -> int:
    """Mark workers stopped whose heartbeat is older than two leases.

    A worker that reports again is marked alive again.
    """
    silent = Worker.every.filter(
        stopped_at=None, heartbeat_at__lt=Now() - timedelta(seconds=2 * settings.LEASE_SECONDS)
    )
    reason = f"silent: no heartbeat for {2 * settings.LEASE_SECONDS} s"
    return silent.update(stopped_at=Now(), stopped_reason=reason, doing="", for_runs={})
