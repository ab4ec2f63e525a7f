import django.db.models.deletion
from django.db import migrations, models

from apps.accounts.create_models import CreateModels


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_schema"),
    ]

    operations = [
        CreateModels(
            [
                migrations.CreateModel(
                    name="Topic",
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
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="topics",
                                to="accounts.project",
                            ),
                        ),
                        ("name", models.CharField(max_length=120, unique=True)),
                        ("sequence", models.BigIntegerField(default=0)),
                    ],
                ),
                migrations.CreateModel(
                    name="Event",
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
                            "topic",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="events",
                                to="streaming.topic",
                            ),
                        ),
                        ("sequence", models.BigIntegerField()),
                        ("kind", models.CharField(max_length=40)),
                        ("payload", models.JSONField(default=dict)),
                        ("at", models.DateTimeField(auto_now_add=True)),
                    ],
                    options={
                        "ordering": ["sequence"],
                        "indexes": [
                            models.Index(
                                condition=models.Q(("kind", "config_changed")),
                                fields=["topic", "-id"],
                                name="changes_of_configuration",
                            )
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("topic", "sequence"), name="one_event_per_sequence"
                            )
                        ],
                    },
                ),
            ]
        ),
    ]
