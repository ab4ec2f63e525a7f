import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("rollouts", "0008_records_of_tasks"),
    ]

    operations = [
        migrations.CreateModel(
            name="PartialRollout",
            fields=[
                (
                    "rollout",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="partial",
                        serialize=False,
                        to="rollouts.rollout",
                    ),
                ),
                ("data", models.BinaryField(help_text="Its arrays so far (apps.rollouts.payload).")),
                ("completion_tokens", models.PositiveIntegerField()),
                ("notes", models.JSONField(help_text="Its turns, and what people did in them.")),
                ("slices", models.PositiveIntegerField(help_text="How many it has had.")),
                (
                    "left_fence",
                    models.BigIntegerField(
                        help_text="Its group's when that was left: who claims it next has all that was said. NULL: more may have been.",
                        null=True,
                    ),
                ),
                ("stored_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
    ]
