"""Alerts: runs are looked at, and what is to be told is told. Jobs of their own: nothing waits for them, nor they for the sweep."""

import structlog
from celery import shared_task

from apps.accounts.locking import retrying
from apps.alerts.delivering import deliver
from apps.alerts.evaluating import look_at_runs
from apps.feedback.spent import count_time

log = structlog.get_logger(__name__)


@shared_task(name="alert")
@retrying
def alert(**_: object) -> None:
    """Idempotent; two at once do no harm. People's time is brought up to date first: budgets limit it."""
    count_time()
    if done := look_at_runs():
        log.info("alerts", **done)


@shared_task(name="tell")
@retrying
def tell(**_: object) -> None:
    """Idempotent but for what a death between sending and saying so makes be sent again; several at once share the work."""
    if sent := deliver():
        log.info("alerts_told", deliveries=sent)
