"""Alerts: runs are looked at, and what is to be told is told. Jobs of their own: nothing waits for them, nor they for the sweep."""

import structlog
from celery import shared_task

from apps.alerts.delivering import deliver
from apps.alerts.evaluating import look_at_runs

log = structlog.get_logger(__name__)


@shared_task(name="alert")
def alert(**_: object) -> None:
    """Idempotent; two at once do no harm."""
    if done := look_at_runs():
        log.info("alerts", **done)


@shared_task(name="tell")
def tell(**_: object) -> None:
    """Idempotent but for what a death between sending and saying so makes be sent again; several at once share the work."""
    if sent := deliver():
        log.info("alerts_told", deliveries=sent)
