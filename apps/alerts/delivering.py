"""Deliver the outbox of alert messages: claim what is due, send it, record the outcome, retry.

Delivery is at least once. A process that dies between sending and recording leaves the delivery to
be sent again, under the same key.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from smtplib import SMTPException
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.core.validators import EmailValidator
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.locking import lock_ids, unit_of_work
from apps.alerts.messages import Message, build_message, mail_text, sign_webhook
from apps.alerts.models import Channel, Delivery
from apps.alerts.plugin_channels import ChannelFailed, checked_by_plugin, sent_by_plugin
from apps.environments.pull import exchanges
from apps.environments.pull.addresses import Address, parse_address, resolved
from apps.environments.pull.errors import BadAddress, CallFailed
from apps.runs.models import after

AT_ONCE = 20
# Seconds for which a claim excludes other processes: longer than all attempts of one claim take.
CLAIMED_S = 120.0
CALL_S = 10.0
FIRST_PAUSE_S = 10.0
MAX_PAUSE_S = 3_600.0
MAX_ATTEMPTS = 10  # the last one comes about four hours after the first
NO_SERVER = "e-mail is not configured: set RFTWEB_EMAIL_HOST"


class NotSent(Exception):
    """A message that could not be delivered; the exception's text says why."""


def check_channel_address(kind: str, address: str) -> str:
    """Return the checked address of a new channel; raise ValueError with a message for the user."""
    address = address.strip()
    if kind == Channel.Kind.EMAIL:
        if not settings.EMAIL_HOST:
            raise ValueError(NO_SERVER)
        try:
            EmailValidator("must be an e-mail address, such as name@example.org")(address)
        except ValidationError as wrong:
            raise ValueError(wrong.message) from None
        return address
    if kind != Channel.Kind.WEBHOOK:
        return checked_by_plugin(kind, address)
    try:
        split_webhook_address(address)
    except BadAddress as wrong:
        raise ValueError(str(wrong)) from None
    return address


def split_webhook_address(text: str) -> tuple[Address, str]:
    """Return a webhook's address and the path with its query. Raise BadAddress.

    The path is what the HTTP request line names.
    """
    place, _, query = text.partition("?")
    address = parse_address(place)
    if address.scheme not in ("http", "https"):
        raise BadAddress("must begin with http:// or https://")
    if not query.isascii() or any(character <= " " or character in "#\x7f" for character in query):
        raise BadAddress("the query after ? must be ASCII, without spaces and #")
    return replace(address, path=""), (urlsplit(place).path or "/") + (f"?{query}" if query else "")


def deliver() -> int:
    """Send the deliveries that are due and return how many were sent.

    Several processes may call it at once; they share the work.
    """
    claimed = _claim()
    outcomes = asyncio.run(
        _call_all(
            [delivery for delivery in claimed if delivery.channel.kind == Channel.Kind.WEBHOOK]
        )
    )
    outcomes |= _mail_all(
        [delivery for delivery in claimed if delivery.channel.kind == Channel.Kind.EMAIL]
    )
    outcomes |= _by_plugins(
        [delivery for delivery in claimed if delivery.channel.kind not in Channel.Kind.values]
    )
    for delivery in claimed:
        _settle(delivery, outcomes[delivery.pk])
    return sum(not isinstance(outcome, NotSent) for outcome in outcomes.values())


def due_deliveries() -> QuerySet[Delivery]:
    """Return the deliveries to send now: those of channels that are on, and tests of channels."""
    waiting = Delivery.objects.filter(state=Delivery.State.WAITING, due_at__lte=Now())
    return waiting.filter(Q(channel__is_on=True) | Q(kind="test"))


@unit_of_work
def _claim() -> list[Delivery]:
    """Claim the oldest due deliveries.

    A claimed delivery is not due while it is being sent.
    """
    ids = lock_ids(due_deliveries().order_by("due_at")[:AT_ONCE], skip_locked=True)
    Delivery.objects.filter(pk__in=ids).update(due_at=after(CLAIMED_S), attempts=F("attempts") + 1)
    deliveries = Delivery.objects.filter(pk__in=ids).select_related(
        "channel__project", "entry__alert__run__project"
    )
    return list(deliveries.order_by("pk"))


def _settle(delivery: Delivery, outcome: str | NotSent) -> None:
    """Record the outcome of a delivery, unless another process has claimed it since."""
    claimed_delivery = Delivery.objects.filter(
        pk=delivery.pk, state=Delivery.State.WAITING, attempts=delivery.attempts
    )
    if not isinstance(outcome, NotSent):
        claimed_delivery.update(state=Delivery.State.SENT, sent_at=Now(), answer=outcome[:300])
    elif delivery.attempts >= MAX_ATTEMPTS:
        claimed_delivery.update(state=Delivery.State.GIVEN_UP, answer=str(outcome)[:300])
    else:
        claimed_delivery.update(
            due_at=after(pause_after(delivery.attempts)), answer=str(outcome)[:300]
        )


def pause_after(attempts: int) -> float:
    """Return the seconds to wait after this many failed attempts."""
    return min(MAX_PAUSE_S, FIRST_PAUSE_S * 3.0 ** (attempts - 1))


async def _call_all(deliveries: Sequence[Delivery]) -> dict[int, str | NotSent]:
    outcomes = await asyncio.gather(*(_call(delivery) for delivery in deliveries))
    return {delivery.pk: answer for delivery, answer in zip(deliveries, outcomes, strict=True)}


async def _call(delivery: Delivery) -> str | NotSent:
    """Call a webhook and return the outcome.

    Each attempt resolves the host name again, and the resolved address is checked
    (apps.environments.pull.addresses).
    """
    try:
        async with asyncio.timeout(CALL_S):
            address, path = split_webhook_address(delivery.channel.address)
            machine = await resolved(address)
            body, headers = sign_webhook(delivery, build_message(delivery), timezone.now())
            return await exchanges.posted(address, machine, path, body, headers)
    except TimeoutError:
        return NotSent(f"no response within {CALL_S:g} s")
    except (BadAddress, CallFailed) as why:
        return NotSent(str(why))


def _by_plugins(deliveries: Sequence[Delivery]) -> dict[int, str | NotSent]:
    """Send all at once, each with its own time limit, and return the outcomes."""
    if not deliveries:
        return {}
    messages = [
        build_message(delivery) for delivery in deliveries
    ]  # read from the database in this thread
    with ThreadPoolExecutor(max_workers=len(deliveries)) as pool:
        answers = pool.map(_by_plugin, deliveries, messages)
        return {delivery.pk: answer for delivery, answer in zip(deliveries, answers, strict=True)}


def _by_plugin(delivery: Delivery, message: Message) -> str | NotSent:
    channel = delivery.channel
    try:
        return sent_by_plugin(channel.kind, message, channel.address)
    except ChannelFailed as why:
        return NotSent(str(why))


def _mail_all(deliveries: Sequence[Delivery]) -> dict[int, str | NotSent]:
    """Send one e-mail for each delivery, all over one connection, and return the outcomes."""
    if not deliveries:
        return {}
    if not settings.EMAIL_HOST:
        return {delivery.pk: NotSent(NO_SERVER) for delivery in deliveries}
    server = get_connection()
    try:
        server.open()
    except (OSError, SMTPException) as why:
        return {
            delivery.pk: NotSent(f"the mail server is not reachable: {why}")
            for delivery in deliveries
        }
    try:
        return {delivery.pk: _mail(delivery, server) for delivery in deliveries}
    finally:
        server.close()


def _mail(delivery: Delivery, server: BaseEmailBackend) -> str | NotSent:
    message = build_message(delivery)
    mail = EmailMessage(
        message.subject,
        mail_text(message),
        to=[delivery.channel.address],
        connection=server,
        headers={"Message-ID": f"<{delivery.key}@rftweb>", "Auto-Submitted": "auto-generated"},
    )
    try:
        mail.send()
    except (OSError, SMTPException, ValueError) as why:
        return NotSent(f"the mail server rejected the message: {why}")
    return "accepted by the mail server"
