"""The job that sends invitations by e-mail: no request waits for the mail server."""

import structlog
from celery import shared_task

from apps.accounts.invitation_mails import deliver_invitations
from apps.accounts.locking import retrying

log = structlog.get_logger(__name__)


@shared_task(name="send_invitations")
@retrying
def mail(**_: object) -> None:
    """Send the e-mails that are due; several jobs at once share the work.

    Idempotent, except that one is sent again if the job dies between sending it and recording that.
    """
    if sent_count := deliver_invitations():
        log.info("invitations_mailed", invitations=sent_count)
