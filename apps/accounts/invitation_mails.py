"""Send invitations by e-mail: claim what is due, send it, record the outcome, retry."""

from datetime import timedelta
from smtplib import SMTPException

from django.conf import settings
from django.core.mail import EmailMessage
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from apps.accounts.locking import lock_ids, unit_of_work
from apps.accounts.models import Invitation, InvitationMail
from apps.accounts.public_text import public_text
from apps.accounts.sealing import NotOpened, open_secret

AT_ONCE = 20
# Seconds for which a claim excludes other processes: longer than sending one claim takes.
CLAIMED_S = AT_ONCE * settings.EMAIL_TIMEOUT + 60.0
FIRST_PAUSE_S = 10.0
MAX_ATTEMPTS = 5  # the last one comes about seven minutes after the first
NO_SERVER = "e-mail is not configured: set RFTWEB_EMAIL_HOST"
TEXT = """{inviter} invites you to the project “{project}” on rftweb.

Your role: {role}. To join, open this link and create an account, or log in to yours:

{link}

The link works until {until} UTC, for one person. If you did not expect this e-mail, ignore it.
"""


class NotSent(Exception):
    """Raised for an e-mail that could not be sent; the message says why.

    `is_final`: another attempt would fail too.
    """

    def __init__(self, why: str, is_final: bool = False) -> None:
        super().__init__(why)
        self.is_final = is_final


def deliver_invitations() -> int:
    """Send the e-mails that are due and return how many were sent.

    Several processes may call it at once; they share the work. A process that dies between sending
    and recording leaves the e-mail to be sent again.
    """
    sent_count = 0
    for mail in _claim():
        try:
            _send(mail)
        except NotSent as why:
            _keep(mail, why)
        else:
            sent_count += 1
            _claimed_mail(mail).update(
                state=InvitationMail.State.SENT, sent_at=Now(), reason="", sealed_link=""
            )
    return sent_count


def due_mails() -> QuerySet[InvitationMail]:
    """Return the e-mails to send now."""
    return InvitationMail.objects.filter(state=InvitationMail.State.WAITING, due_at__lte=Now())


@unit_of_work
def _claim() -> list[InvitationMail]:
    """Claim the oldest due e-mails; a claimed one is not due while it is being sent."""
    ids = lock_ids(due_mails().order_by("due_at")[:AT_ONCE], skip_locked=True)
    InvitationMail.objects.filter(pk__in=ids).update(
        due_at=Now() + timedelta(seconds=CLAIMED_S), attempts=F("attempts") + 1
    )
    mails = InvitationMail.objects.filter(pk__in=ids)
    return list(mails.select_related("invitation__project", "invitation__created_by"))


def _send(mail: InvitationMail) -> None:
    """Send one e-mail. Raise NotSent."""
    invitation = mail.invitation
    if invitation.state != "open":
        raise NotSent(f"the invitation is {invitation.state}", is_final=True)
    if not settings.EMAIL_HOST:
        raise NotSent(NO_SERVER)
    try:
        link = open_secret(mail.sealed_link)
    except NotOpened as why:
        raise NotSent(f"the link is gone: {why}", is_final=True) from None
    key = f"<invitation-{invitation.pk}@rftweb>"
    message = EmailMessage(
        " ".join(f"Invitation to {invitation.project.title}".split()),
        _text(invitation, link),
        to=[mail.address],
        headers={"Message-ID": key, "Auto-Submitted": "auto-generated"},
    )
    try:
        message.send()
    except (OSError, SMTPException, ValueError) as why:
        raise NotSent(f"the mail server did not take it: {why}") from why


def _text(invitation: Invitation, link: str) -> str:
    return TEXT.format(
        inviter=invitation.created_by or "Somebody",
        project=invitation.project.title,
        role=invitation.get_role_display().lower(),
        link=link,
        until=f"{invitation.expires_at:%d %B %Y, %H:%M}",
    )


def _keep(mail: InvitationMail, why: NotSent) -> None:
    """Record why an e-mail was not sent; schedule another attempt unless it would fail too."""
    reason = public_text(str(why))[:300]
    if why.is_final or mail.attempts >= MAX_ATTEMPTS:
        _claimed_mail(mail).update(state=InvitationMail.State.FAILED, reason=reason)
    else:
        pause = FIRST_PAUSE_S * 3.0 ** (mail.attempts - 1)
        _claimed_mail(mail).update(due_at=Now() + timedelta(seconds=pause), reason=reason)


def _claimed_mail(mail: InvitationMail):
    """Return a query for the e-mail, empty if another process has claimed it since."""
    return InvitationMail.objects.filter(
        pk=mail.pk, state=InvitationMail.State.WAITING, attempts=mail.attempts
    )
