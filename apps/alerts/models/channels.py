"""Channels that a project's alerts are sent to, and the outbox of deliveries.

The outbox is written in the transaction of the alert, so that no message is lost when a sender
dies.
"""

import base64
import hashlib
import hmac
import secrets
import uuid

from django.conf import settings
from django.db import models, transaction
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.models import Project, User
from apps.streaming import wakeups

SECRET_PREFIX = "whsec_"
MAX_CHANNELS = 20  # per project


class Channel(models.Model):
    """An e-mail address, a webhook, or an address of a plugin (`kind` is then its name).

    A webhook's secret is not stored: it is derived from the installation's secret key and this
    row's nonce. Someone who reads the table cannot sign, and a new nonce makes a new secret.
    """

    class Kind(models.TextChoices):
        EMAIL = "email", "e-mail"
        WEBHOOK = "webhook", "webhook"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="alert_channels")
    kind = models.CharField(max_length=60, help_text="email, webhook, or the name of a plugin.")
    address = models.CharField(max_length=500)
    nonce = models.CharField(max_length=32)
    is_on = models.BooleanField(default=True, db_default=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "kind", "address"], name="one_channel_per_address"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.address}"

    @classmethod
    def make(cls, project: Project, kind: str, address: str, by: User) -> "Channel":
        return cls.objects.create(
            project=project, kind=kind, address=address, nonce=secrets.token_hex(16), created_by=by
        )

    @property
    def kind_title(self) -> str:
        return dict(self.Kind.choices).get(self.kind, self.kind.replace("_", " "))

    @property
    def secret(self) -> str:
        """Return the secret that signs this webhook's messages; users see it once."""
        mac = hmac.new(
            settings.SECRET_KEY.encode(),
            f"alert webhook {self.pk} {self.nonce}".encode(),
            hashlib.sha256,
        )
        return SECRET_PREFIX + base64.urlsafe_b64encode(mac.digest()).decode().rstrip("=")

    def renew(self) -> None:
        """Replace the secret that signs this webhook's messages."""
        self.nonce = secrets.token_hex(16)
        self.save(update_fields=["nonce"])

    def switch_off(self) -> None:
        """Stop sending to this channel and give up its waiting deliveries.

        Otherwise they would arrive late when the channel is switched on again.
        """
        Channel.objects.filter(pk=self.pk).update(is_on=False)
        waiting = self.deliveries.filter(state=Delivery.State.WAITING)
        waiting.update(state=Delivery.State.GIVEN_UP, answer="the channel was turned off")

    def switch_on(self) -> None:
        Channel.objects.filter(pk=self.pk).update(is_on=True)

    def test(self) -> "Delivery":
        delivery = Delivery.objects.create(channel=self, kind="test")
        transaction.on_commit(lambda: wakeups.send("deliver_alerts"), robust=True)
        return delivery


class Delivery(models.Model):
    """One message to one channel.

    `key` identifies the message to its receiver: a repeated delivery has the same key.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        SENT = "sent", "sent"
        GIVEN_UP = "given_up", "given up"

    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="deliveries")
    entry = models.ForeignKey(
        "alerts.AlertEntry", null=True, on_delete=models.CASCADE, related_name="deliveries"
    )
    key = models.UUIDField(default=uuid.uuid4, unique=True)
    kind = models.CharField(
        max_length=20, help_text="alert.opened, alert.closed, alert.paused, or test."
    )
    state = models.CharField(max_length=8, choices=State.choices, default=State.WAITING)
    attempts = models.PositiveSmallIntegerField(default=0, db_default=0)
    due_at = models.DateTimeField(
        db_default=Now(),
        help_text="Time of the next attempt. During an attempt: when another worker may try.",
    )
    answer = models.CharField(max_length=300, blank=True, help_text="Error of the latest attempt.")
    created_at = models.DateTimeField(db_default=Now())
    sent_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name_plural = "deliveries"
        constraints = [
            models.UniqueConstraint(
                fields=["channel", "entry"], name="one_delivery_per_channel_and_entry"
            )
        ]
        indexes = [
            models.Index(fields=["due_at"], name="deliveries_due", condition=Q(state="waiting")),
            models.Index(fields=["channel", "-id"], name="deliveries_of_a_channel"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} by {self.channel_id}"
