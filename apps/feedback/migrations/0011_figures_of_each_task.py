from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("feedback", "0010_evaluation_results")]

    operations = [
        migrations.AddField(
            "evaluationresult", "by_task",
            models.JSONField(
                null=True,
                help_text="apps.feedback.evaluation.results.ByTask, as JSON; NULL where it was summed up before this was kept.",
            ),
        ),
    ]  # fmt: skip
