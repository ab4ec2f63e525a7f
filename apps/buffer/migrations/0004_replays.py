import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("buffer", "0003_advantages_of_a_step"),
        ("rollouts", "0003_experts_answers"),
        ("runs", "0004_skipped_steps"),
    ]

    operations = [
        migrations.CreateModel(
            name="Recorded",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("recorded_step", models.PositiveIntegerField()),
                (
                    "step",
                    models.PositiveIntegerField(
                        help_text="The update of this run; NULL: not numbered, or nothing left.", null=True
                    ),
                ),
                ("place", models.PositiveIntegerField(help_text="The order within the update.")),
                (
                    "expert",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, related_name="recorded", to="rollouts.rollout"
                    ),
                ),
                (
                    "group",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="recorded", to="rollouts.group"),
                ),
                (
                    "of",
                    models.ForeignKey(
                        help_text="What was copied.",
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="replays",
                        to="rollouts.group",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="recorded", to="runs.run"),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["run", "step"], name="recorded_rows_of_a_step")],
                "constraints": [
                    models.UniqueConstraint(fields=("run", "recorded_step", "place"), name="one_recorded_row_per_place")
                ],
            },
        ),
    ]
