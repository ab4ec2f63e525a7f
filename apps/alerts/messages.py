"""Messages about alerts: the text of an e-mail, and the body and signature of a webhook."""

import hashlib
import hmac
import json
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.urls import reverse

from apps.alerts.models import Delivery

VERBS = {
    "alert.opened": "Alert",
    "alert.closed": "Resolved",
    "alert.paused": "Paused",
    "test": "Test",
}
TEST = "This is a test. Alerts of this project are sent to this address."


@dataclass(frozen=True)
class Message:
    """A message about an alert.

    `text` is the subject and the words in one string, as chat services show them. All strings are
    single lines.
    """

    subject: str
    words: str
    todo: str
    link: str
    body: dict


def build_message(delivery: Delivery) -> Message:
    """Return the message of a delivery; it is the same at each attempt.

    `delivery` must have its channel's project and its entry's alert and run loaded.
    """
    if delivery.entry is None:
        project = delivery.channel.project
        return _build_message(
            delivery,
            f"Test: alerts of {project.slug}",
            TEST,
            "",
            reverse("alert-channels", args=[project.slug]),
            {},
        )
    entry, alert = delivery.entry, delivery.entry.alert
    run = alert.run
    verb = VERBS[delivery.kind]
    todo = alert.todo if delivery.kind == "alert.opened" else ""
    body = {
        "id": alert.pk,
        "rule": alert.rule,
        "key": alert.key,
        "title": alert.title,
        "since": alert.since.isoformat(),
        "project": run.project.slug,
        "run": run.slug,
    }
    link = reverse("run-alerts", args=[run.project.slug, run.slug])
    words = f"{alert.words} ({entry.words})" if delivery.kind == "alert.closed" else entry.words
    return _build_message(
        delivery,
        f"{verb}: {alert.title.lower()} in {run.project.slug}/{run.slug}",
        words,
        todo,
        link,
        {"alert": body},
    )


def _build_message(
    delivery: Delivery, subject: str, words: str, todo: str, path: str, more: dict
) -> Message:
    link = f"{settings.SITE_ADDRESS}{path}" if settings.SITE_ADDRESS else ""
    subject, words, todo = (" ".join(text.split()) for text in (subject, words, todo))
    body = {
        "id": str(delivery.key),
        "kind": delivery.kind,
        "at": delivery.created_at.isoformat(),
        "words": words,
        "todo": todo,
        "link": link,
        "text": f"{subject}. {words}" + (f" {link}" if link else ""),
        **more,
    }
    return Message(subject[:200], words, todo, link, body)


def mail_text(message: Message) -> str:
    parts = [
        message.words,
        message.todo,
        message.link,
        "Sent by rftweb. Manage notification channels on the project’s Alerts page.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def sign_webhook(
    delivery: Delivery, message: Message, now: datetime
) -> tuple[bytes, list[tuple[str, str]]]:
    """Return the body of a webhook and the headers with its signature.

    The receiver can verify that the message is ours, unchanged and recent: the signature is
    HMAC-SHA256 with the channel's secret over `timestamp.body`, in hexadecimal digits.
    """
    body = json.dumps(message.body).encode()
    timestamp = str(int(now.timestamp()))
    return body, [
        ("X-Rftweb-Id", str(delivery.key)),
        ("X-Rftweb-Timestamp", timestamp),
        ("X-Rftweb-Signature", f"v1={signature(delivery.channel.secret, timestamp, body)}"),
    ]


def signature(secret: str, timestamp: str, body: bytes) -> str:
    return hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
