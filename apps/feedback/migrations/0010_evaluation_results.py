import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("feedback", "0009_pairs_name_their_rollouts"),
        ("runs", "0007_evaluations"),
    ]

    operations = [
        migrations.CreateModel(
            name="EvaluationResult",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("figures", models.JSONField(help_text="apps.feedback.evaluation.results.Found, as JSON.")),
                ("made_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("run", models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name="result", to="runs.run")),
            ],
        ),
    ]
