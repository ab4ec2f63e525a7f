import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0011_labels_and_reward_now"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="experiences_trained",
            field=models.PositiveIntegerField(
                db_default=0,
                default=0,
                help_text="Experiences that committed updates took, each counted once; experts' stay ready.",
            ),
        ),
        migrations.AddIndex(
            model_name="trainstep",
            index=models.Index(fields=["run", "committed_at"], name="steps_by_the_clock"),
        ),
        migrations.CreateModel(
            name="MetricSpan",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=60)),
                ("level", models.PositiveSmallIntegerField()),
                ("first", models.PositiveIntegerField(help_text="The first step of it.")),
                ("count", models.PositiveIntegerField(help_text="Steps that have a value.")),
                ("mean", models.FloatField()),
                ("low", models.FloatField()),
                ("high", models.FloatField()),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="spans", to="runs.run"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("run", "name", "level", "first"), name="one_span_per_place"),
                    models.CheckConstraint(
                        condition=models.Q(("level__gte", 1), ("count__gte", 1), ("low__lte", models.F("high"))),
                        name="spans_are_spans",
                    ),
                ],
            },
        ),
    ]
