from django.db import migrations, models

COUNT_TRAINED = """
    UPDATE runs_run SET experiences_trained = counted.n
    FROM (SELECT run_id, count(*) AS n FROM buffer_experience WHERE state = 'trained' GROUP BY run_id) AS counted
    WHERE counted.run_id = runs_run.id"""


class Migration(migrations.Migration):
    dependencies = [
        ("buffer", "0009_rollouts_made_of_others"),
        ("runs", "0012_metric_spans"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="experience",
            index=models.Index(
                condition=models.Q(("state", "trained"), _negated=True), fields=["run", "state"], name="untrained_experiences"
            ),
        ),
        migrations.AddIndex(
            model_name="experience",
            index=models.Index(condition=models.Q(("state", "dropped")), fields=["run", "-id"], name="dropped_experiences"),
        ),
        migrations.RunSQL(COUNT_TRAINED, migrations.RunSQL.noop),
    ]
