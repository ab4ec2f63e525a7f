import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0005_groups_taken_again"),
        ("tasksets", "0009_taskset_imports"),
    ]

    operations = [
        migrations.AlterField(
            model_name="run",
            name="taskset",
            field=models.ForeignKey(
                help_text="NULL where it draws from several: its shares.",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="tasksets.taskset",
            ),
        ),
        migrations.CreateModel(
            name="TasksetShare",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("share", models.PositiveSmallIntegerField(help_text="Of the draws, beside the other sets' shares.")),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="shares", to="runs.run"
                    ),
                ),
                (
                    "taskset",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="shares", to="tasksets.taskset"),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("run", "taskset"), name="one_share_per_taskset_of_a_run"),
                    models.CheckConstraint(condition=models.Q(("share__gt", 0)), name="a_shared_taskset_is_drawn_from"),
                ],
            },
        ),
    ]
