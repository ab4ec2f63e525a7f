"""The master of the loop: one sweep that frees what dead workers held and closes what is over.

What may be done next is decided by the rules of `apps.runs.admission` over rows. No station waits
for the sweep: stations wake themselves, claims look past expired leases, and the refiner closes
overdue groups itself.
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
from apps.feedback.calibration.watching import keep_up
from apps.feedback.evaluation import scheduled
from apps.feedback.evaluation.results import keep_results
from apps.feedback.interventions import refuse_unheard
from apps.feedback.models import Slot
from apps.feedback.settling import close_ended, close_overdue
from apps.rollouts.measuring import complete_measured
from apps.rollouts.models import Group
from apps.runs.models import Worker

log = structlog.get_logger(__name__)


@shared_task(name="sweep")
@retrying
def sweep(**_: object) -> None:
    """Idempotent; two at once do no harm."""
    swept = {
        "leases_released": Group.objects.release_expired(),
        "slots_expired": Slot.objects.release_expired(),
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

    A job of its own beside the sweep: its work grows with what people and evaluations produced.
    """
    if evaluated := scheduled.keep_up_all():
        log.info("evaluations_made", count=evaluated)
    keep_results()
    if calibrated := keep_up():
        log.info("calibrated", runs=calibrated)


def bury_silent_workers() -> int:
    """Mark processes stopped whose heartbeat is older than two leases; one that speaks again is
    alive again.
    """
    silent = Worker.every.filter(stopped_at=None, heartbeat_at__lt=Now() - timedelta(seconds=2 * settings.LEASE_SECONDS))
    reason = f"silent: no heartbeat for {2 * settings.LEASE_SECONDS} s"
    return silent.update(stopped_at=Now(), stopped_reason=reason, doing="", for_runs={})
