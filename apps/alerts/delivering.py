"""The outbox emptied: what is due is claimed, sent, and said to be sent; what failed is due again later.

At least once: whoever dies between sending and saying so leaves it to be sent again, under the same key.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from smtplib import SMTPException
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage, get_connection
from django.core.validators import EmailValidator
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.locking import lock_ids, unit_of_work
from apps.alerts.messages import mail_text, message_of, signed
from apps.alerts.models import Channel, Delivery
from apps.environments.pull import exchanges
from apps.environments.pull.addresses import Address, parsed, resolved
from apps.environments.pull.errors import BadAddress, CallFailed
from apps.runs.models import after

AT_ONCE = 20
CLAIMED_S = 120.0  # how long nobody else sends what was claimed: longer than all attempts of one claim may take
CALL_S = 10.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 10.0, 3_600.0
MOST_ATTEMPTS = 10  # the last comes about four hours after the first
NO_SERVER = "no mail server is configured: RFTWEB_EMAIL_HOST"


class NotSent(Exception):
    """It did not arrive; the message says why."""


def checked(kind: str, address: str) -> str:
    """The address of a new channel. Raises ValueError, in words for who typed it."""
    address = address.strip()
    if kind == Channel.Kind.EMAIL:
        if not settings.EMAIL_HOST:
            raise ValueError(NO_SERVER)
        try:
            EmailValidator("must be an e-mail address, such as name@example.org")(address)
        except ValidationError as wrong:
            raise ValueError(wrong.message) from None
        return address
    try:
        called(address)
    except BadAddress as wrong:
        raise ValueError(str(wrong)) from None
    return address


def called(text: str) -> tuple[Address, str]:
    """Where a webhook is, and what of it the request names. Raises BadAddress."""
    place, _, query = text.partition("?")
    address = parsed(place)
    if address.scheme not in ("http", "https"):
        raise BadAddress("must begin with http:// or https://")
    if not query.isascii() or any(character <= " " or character in "#\x7f" for character in query):
        raise BadAddress("what follows ? must be ASCII, without spaces and without #")
    return replace(address, path=""), (urlsplit(place).path or "/") + (f"?{query}" if query else "")


def deliver() -> int:
    """Send what is due; how many were sent. Several at once share the work."""
    claimed = _claim()
    outcomes = asyncio.run(_call_all([one for one in claimed if one.channel.kind == Channel.Kind.WEBHOOK]))
    outcomes |= _mail_all([one for one in claimed if one.channel.kind == Channel.Kind.EMAIL])
    for delivery in claimed:
        _settle(delivery, outcomes[delivery.pk])
    return sum(not isinstance(said, NotSent) for said in outcomes.values())


@unit_of_work
def _claim() -> list[Delivery]:
    """Due deliveries, the oldest first. While they are sent they are not due."""
    due = Delivery.objects.filter(state=Delivery.State.WAITING, due_at__lte=Now())
    due = due.filter(Q(channel__is_on=True) | Q(kind="test"))
    ids = lock_ids(due.order_by("due_at")[:AT_ONCE], skip_locked=True)
    Delivery.objects.filter(pk__in=ids).update(due_at=after(CLAIMED_S), attempts=F("attempts") + 1)
    found = Delivery.objects.filter(pk__in=ids).select_related("channel__project", "entry__alert__run__project")
    return list(found.order_by("pk"))


def _settle(delivery: Delivery, said: str | NotSent) -> None:
    """Unless another has claimed it since, which then says what became of it."""
    ours = Delivery.objects.filter(pk=delivery.pk, state=Delivery.State.WAITING, attempts=delivery.attempts)
    if not isinstance(said, NotSent):
        ours.update(state=Delivery.State.SENT, sent_at=Now(), answer=said[:300])
    elif delivery.attempts >= MOST_ATTEMPTS:
        ours.update(state=Delivery.State.GIVEN_UP, answer=str(said)[:300])
    else:
        ours.update(due_at=after(pause_after(delivery.attempts)), answer=str(said)[:300])


def pause_after(attempts: int) -> float:
    """Seconds until the next one."""
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 3.0 ** (attempts - 1))


async def _call_all(deliveries: Sequence[Delivery]) -> dict[int, str | NotSent]:
    said = await asyncio.gather(*(_call(one) for one in deliveries))
    return {one.pk: answer for one, answer in zip(deliveries, said, strict=True)}


async def _call(delivery: Delivery) -> str | NotSent:
    """The name is resolved anew for each attempt, and what it resolves to is judged (apps.environments.pull.addresses)."""
    try:
        async with asyncio.timeout(CALL_S):
            address, path = called(delivery.channel.address)
            machine = await resolved(address)
            body, headers = signed(delivery, message_of(delivery), timezone.now())
            return await exchanges.posted(address, machine, path, body, headers)
    except TimeoutError:
        return NotSent(f"no answer within {CALL_S:g} s")
    except (BadAddress, CallFailed) as why:
        return NotSent(str(why))


def _mail_all(deliveries: Sequence[Delivery]) -> dict[int, str | NotSent]:
    """One message to each, over one connection."""
    if not deliveries:
        return {}
    if not settings.EMAIL_HOST:
        return {one.pk: NotSent(NO_SERVER) for one in deliveries}
    server = get_connection()
    try:
        server.open()
    except (OSError, SMTPException) as why:
        return {one.pk: NotSent(f"the mail server cannot be reached: {why}") for one in deliveries}
    try:
        return {one.pk: _mail(one, server) for one in deliveries}
    finally:
        server.close()


def _mail(delivery: Delivery, server: object) -> str | NotSent:
    message = message_of(delivery)
    mail = EmailMessage(
        message.subject, mail_text(message), to=[delivery.channel.address], connection=server,
        headers={"Message-ID": f"<{delivery.key}@rftweb>", "Auto-Submitted": "auto-generated"},
    )  # fmt: skip
    try:
        mail.send()
    except (OSError, SMTPException, ValueError) as why:
        return NotSent(f"the mail server refused it: {why}")
    return "taken by the mail server"
