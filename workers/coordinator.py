"""The coordinator: a sweep that frees the leases of dead workers and closes overdue work.

The rules of `apps.runs.admission` decide from rows what may be done next. No worker waits for the
sweep: workers wake themselves, claims ignore expired leases, and the refiner closes overdue groups
itself.
"""

from datetime import timedelta

import structlog
from celery import shared_task
from django.conf import settings
from django.db.models.functions import Now

from apps.accounts.locking import retrying
from apps.environments.closing import close_left
from apps.environments.judging import send_on
from apps.environments.openenv.sessions import close_lost
from apps.feedback.calibration.watching import update_calibrations
from apps.feedback.evaluation import scheduled
from apps.feedback.evaluation.results import keep_results
from apps.feedback.group_completion import close_ended, close_overdue
from apps.feedback.interventions import refuse_unheard
from apps.leases.expiry import expire_all
from apps.rollouts.evaluation_groups import complete_measured
from apps.runs.models import Worker

log = structlog.get_logger(__name__)


@shared_task(name="sweep")
@retrying
def sweep_leases(**_: object) -> None:
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
        log.info("swept", **swept)
    bury_silent_workers()
    Worker.every.filter(role__in=Worker.OF_CONTROL, stopped_at=None).update(swept_at=Now())


@shared_task(name="summarize")
def summarize(**_: object) -> None:
    """Begin evaluations that are due, sum up complete ones, and keep calibrations current.

    A job separate from the sweep: its work grows with the ratings and evaluations that have come
    in.
    """
    if evaluated := scheduled.keep_up_all():
        log.info("evaluations_made", count=evaluated)
    keep_results()
    if calibrated := update_calibrations():
        log.info("calibrated", runs=calibrated)


def bury_silent_workers() -> int:
    """Mark workers stopped whose heartbeat is older than two leases.

    A worker that reports again is marked alive again.
    """
    silent = Worker.every.filter(
        stopped_at=None, heartbeat_at__lt=Now() - timedelta(seconds=2 * settings.LEASE_SECONDS)
    )
    reason = f"silent: no heartbeat for {2 * settings.LEASE_SECONDS} s"
    return silent.update(stopped_at=Now(), stopped_reason=reason, doing="", for_runs={})
