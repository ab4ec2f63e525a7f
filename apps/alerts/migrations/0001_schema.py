import uuid

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

from apps.accounts.create_models import CreateModels


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_schema"),
        ("runs", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        CreateModels(
            [
                migrations.CreateModel(
                    name="Channel",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="alert_channels",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "kind",
                            models.CharField(
                                help_text="email, webhook, or the name of a plugin.", max_length=60
                            ),
                        ),
                        ("address", models.CharField(max_length=500)),
                        ("nonce", models.CharField(max_length=32)),
                        ("is_on", models.BooleanField(db_default=True, default=True)),
                        (
                            "created_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "created_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("project", "kind", "address"),
                                name="one_channel_per_address",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Alert",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="alerts",
                                to="runs.run",
                            ),
                        ),
                        (
                            "rule",
                            models.CharField(
                                help_text="A field of apps.runs.alerts.Alerts.", max_length=20
                            ),
                        ),
                        ("key", models.CharField(blank=True, max_length=100)),
                        (
                            "words",
                            models.TextField(
                                help_text=(
                                    "The problem with its value and start time. The value is "
                                    "kept up to date while the alert is open."
                                )
                            ),
                        ),
                        ("todo", models.TextField(help_text="How to resolve the problem.")),
                        ("measured", models.FloatField(null=True)),
                        (
                            "since",
                            models.DateTimeField(help_text="When the condition was first met."),
                        ),
                        (
                            "opened_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                        (
                            "seen_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now(),
                                help_text="When the condition was last met.",
                            ),
                        ),
                        ("closed_at", models.DateTimeField(null=True)),
                        (
                            "closed_for",
                            models.CharField(
                                blank=True, help_text="Why the alert was closed.", max_length=200
                            ),
                        ),
                        (
                            "has_paused",
                            models.BooleanField(
                                db_default=False,
                                default=False,
                                help_text="The run was paused because of this alert.",
                            ),
                        ),
                        (
                            "acknowledged_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("acknowledged_at", models.DateTimeField(null=True)),
                        (
                            "acknowledged_until",
                            models.DateTimeField(
                                help_text="If empty after acknowledgement: until the alert is closed.",
                                null=True,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("closed_at", None)),
                                fields=["run"],
                                name="open_alerts",
                            ),
                            models.Index(fields=["run", "-id"], name="alerts_of_a_run"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("closed_at", None)),
                                fields=("run", "rule", "key"),
                                name="one_open_alert_per_key",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("closed_at", None),
                                    models.Q(("closed_for", ""), _negated=True),
                                    _connector="OR",
                                ),
                                name="a_closed_alert_says_why",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="AlertEntry",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "alert",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="entries",
                                to="alerts.alert",
                            ),
                        ),
                        (
                            "what",
                            models.CharField(
                                choices=[
                                    ("opened", "opened"),
                                    ("paused", "paused the run"),
                                    ("acknowledged", "acknowledged"),
                                    ("closed", "closed"),
                                ],
                                max_length=12,
                            ),
                        ),
                        ("words", models.TextField(blank=True)),
                        (
                            "by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                    ],
                    options={
                        "verbose_name_plural": "alert entries",
                        "ordering": ["pk"],
                    },
                ),
                migrations.CreateModel(
                    name="Delivery",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "channel",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="deliveries",
                                to="alerts.channel",
                            ),
                        ),
                        (
                            "entry",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="deliveries",
                                to="alerts.alertentry",
                            ),
                        ),
                        ("key", models.UUIDField(default=uuid.uuid4, unique=True)),
                        (
                            "kind",
                            models.CharField(
                                help_text="alert.opened, alert.closed, alert.paused, or test.",
                                max_length=20,
                            ),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("waiting", "waiting"),
                                    ("sent", "sent"),
                                    ("given_up", "given up"),
                                ],
                                default="waiting",
                                max_length=8,
                            ),
                        ),
                        ("attempts", models.PositiveSmallIntegerField(db_default=0, default=0)),
                        (
                            "due_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now(),
                                help_text=(
                                    "Time of the next attempt. During an attempt: when another "
                                    "worker may try."
                                ),
                            ),
                        ),
                        (
                            "answer",
                            models.CharField(
                                blank=True, help_text="Error of the latest attempt.", max_length=300
                            ),
                        ),
                        (
                            "created_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                        ("sent_at", models.DateTimeField(null=True)),
                    ],
                    options={
                        "verbose_name_plural": "deliveries",
                        "indexes": [
                            models.Index(
                                condition=models.Q(("state", "waiting")),
                                fields=["due_at"],
                                name="deliveries_due",
                            ),
                            models.Index(fields=["channel", "-id"], name="deliveries_of_a_channel"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("channel", "entry"),
                                name="one_delivery_per_channel_and_entry",
                            )
                        ],
                    },
                ),
            ]
        ),
    ]
