"""Jobs for alerts: check runs and send notifications.

They are separate jobs: nothing waits for them, nor they for the sweep.
"""

import structlog
from celery import shared_task

from apps.accounts.locking import retrying
from apps.alerts.delivering import deliver
from apps.alerts.evaluating import look_at_runs
from apps.feedback.people_time import count_time

log = structlog.get_logger(__name__)


@shared_task(name="evaluate_alerts")
@retrying
def alert(**_: object) -> None:
    """Check the runs for alerts. Idempotent; two at once do no harm.

    The sums of people's time are updated first: budgets limit it.
    """
    count_time()
    if summary := look_at_runs():
        log.info("alerts_evaluated", **summary)


@shared_task(name="deliver_alerts")
@retrying
def send_notifications(**_: object) -> None:
    """Send the pending notifications; several jobs at once share the work.

    Idempotent, except that one is sent again if the job dies between sending it and recording that.
    """
    if sent_count := deliver():
        log.info("alert_notifications_sent", deliveries=sent_count)
