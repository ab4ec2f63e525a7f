"""Alerts and their history: from the time a rule's condition holds until it no longer does."""

from collections.abc import Iterable
from datetime import timedelta

from django.conf import settings
from django.db import models, transaction
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.locking import unit_of_work
from apps.accounts.models import AuditEntry, User
from apps.alerts.kinds import AS_JUDGED, TITLES, TO_ALL, TO_STEERERS
from apps.alerts.models.channels import Channel, Delivery
from apps.runs.blind_review import judged_openly
from apps.runs.models import NotPossible, Run, after
from apps.streaming import wakeups


class AlertQuerySet(models.QuerySet["Alert"]):
    def visible_to(self, user: User) -> "AlertQuerySet":
        """Return the alerts that the user may see.

        Blind raters see none about rewards, and viewers none about suspicions.
        """
        if user.is_authenticated and user.is_superuser:
            return self
        steered = Q(
            run__in=Run.objects.steered_by(user), rule__in=[*TO_ALL, *AS_JUDGED, *TO_STEERERS]
        )
        judged = Q(run__in=judged_openly(user), rule__in=AS_JUDGED)
        return self.filter(
            steered | judged | Q(run__in=Run.objects.visible_to(user), rule__in=TO_ALL)
        )

    def of_judged_run(self, run: Run, steers: bool) -> "AlertQuerySet":
        """Return the run's alerts for somebody who sees its judgements, and may steer it or not.

        Unlike `visible_to`, it makes no query about the user's rights.
        """
        rules = [*TO_ALL, *AS_JUDGED, *(TO_STEERERS if steers else ())]
        return self.filter(run=run, rule__in=rules)

    def open(self) -> "AlertQuerySet":
        return self.filter(closed_at=None)

    def unacknowledged(self) -> "AlertQuerySet":
        """Return open alerts that are not acknowledged, or whose acknowledgement has expired."""
        is_acknowledged = Q(acknowledged_at__isnull=False) & (
            Q(acknowledged_until=None) | Q(acknowledged_until__gt=Now())
        )
        return self.open().exclude(is_acknowledged)

    def unacknowledged_for(
        self, user: User, limit: int, without: Iterable[str] = ()
    ) -> "list[Alert]":
        """Return up to `limit` unacknowledged alerts that the user may see, the newest first.

        `without` names rules that the page shows by itself. Without any such alert this takes one
        query.
        """
        newest = self.unacknowledged().exclude(rule__in=without).order_by("-pk")
        alerts = list(newest.filter(run__in=Run.objects.visible_to(user))[:limit])
        return (
            alerts
            if all(alert.rule in TO_ALL for alert in alerts)
            else list(newest.visible_to(user)[:limit])
        )


class Alert(models.Model):
    """A condition found by a rule.

    `key` distinguishes the objects that one rule reports on, such as scorers; it is empty where
    there is only one.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="alerts")
    rule = models.CharField(max_length=20, help_text="A field of apps.runs.alerts.Alerts.")
    key = models.CharField(max_length=100, blank=True)
    words = models.TextField(
        help_text=(
            "The problem with its value and start time. The value is kept up to date while "
            "the alert is open."
        )
    )
    todo = models.TextField(help_text="How to resolve the problem.")
    measured = models.FloatField(null=True)
    since = models.DateTimeField(help_text="When the condition was first met.")
    opened_at = models.DateTimeField(db_default=Now())
    seen_at = models.DateTimeField(db_default=Now(), help_text="When the condition was last met.")
    closed_at = models.DateTimeField(null=True)
    closed_for = models.CharField(max_length=200, blank=True, help_text="Why the alert was closed.")
    has_paused = models.BooleanField(
        default=False, db_default=False, help_text="The run was paused because of this alert."
    )
    acknowledged_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    acknowledged_at = models.DateTimeField(null=True)
    acknowledged_until = models.DateTimeField(
        null=True, help_text="If empty after acknowledgement: until the alert is closed."
    )

    objects = AlertQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "rule", "key"],
                condition=Q(closed_at=None),
                name="one_open_alert_per_key",
            ),
            models.CheckConstraint(
                condition=Q(closed_at=None) | ~Q(closed_for=""), name="a_closed_alert_says_why"
            ),
        ]
        indexes = [
            # used by the top line of every page and the run's history
            models.Index(fields=["run"], name="open_alerts", condition=Q(closed_at=None)),
            models.Index(fields=["run", "-id"], name="alerts_of_a_run"),
        ]

    def __str__(self) -> str:
        return f"{self.rule} of {self.run_id}"

    @property
    def title(self) -> str:
        return TITLES.get(self.rule, self.rule)

    def enter(
        self, what: str, words: str = "", by: User | None = None, tell: bool = True
    ) -> "AlertEntry":
        """Record an event in the alert's history and create its deliveries.

        Call it inside a transaction.
        """
        entry = self.entries.create(what=what, words=words, by=by)
        if tell:
            channels = Channel.objects.filter(project=self.run.project_id, is_on=True)
            Delivery.objects.bulk_create(
                [
                    Delivery(channel=channel, entry=entry, kind=f"alert.{what}")
                    for channel in channels
                ],
                ignore_conflicts=True,
            )
            transaction.on_commit(lambda: wakeups.send("deliver_alerts"), robust=True)
        return entry

    @unit_of_work
    def acknowledge(self, by: User, hours: float | None) -> None:
        """Acknowledge the alert for this number of hours, or until it closes.

        Raises NotPossible once it is closed.
        """
        until = None if hours is None else after(hours * 3600)
        open_ones = Alert.objects.filter(pk=self.pk, closed_at=None)
        if not open_ones.update(
            acknowledged_by=by, acknowledged_at=Now(), acknowledged_until=until
        ):
            raise NotPossible("this alert is closed already")
        how_long = "until resolved" if hours is None else f"for {hours:g} h"
        self.enter(AlertEntry.What.ACKNOWLEDGED, how_long, by, tell=False)
        self.run.topic.record("alert_acknowledged", alert=self.pk, rule=self.rule, by=str(by))
        AuditEntry.record(
            "alert acknowledged",
            self.run.address,
            by,
            self.run.project,
            alert=self.pk,
            rule=self.rule,
            until=how_long,
        )
        self.refresh_from_db()

    @property
    def lasted(self) -> timedelta | None:
        return self.closed_at - self.opened_at if self.closed_at else None


class AlertEntry(models.Model):
    """An event in the history of an alert; never changed once recorded."""

    class What(models.TextChoices):
        OPENED = "opened", "opened"
        PAUSED = "paused", "paused the run"
        ACKNOWLEDGED = "acknowledged", "acknowledged"
        CLOSED = "closed", "closed"

    alert = models.ForeignKey(Alert, on_delete=models.CASCADE, related_name="entries")
    what = models.CharField(max_length=12, choices=What.choices)
    words = models.TextField(blank=True)
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["pk"]
        verbose_name_plural = "alert entries"

    def __str__(self) -> str:
        return f"{self.alert_id} {self.what}"
