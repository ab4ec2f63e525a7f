from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0020_usage_totals")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="tokens_per_s_now",
            field=models.FloatField(editable=False, help_text="Likewise what explorers sampled.", null=True),
        ),
        migrations.RunSQL(
            """
            UPDATE runs_run SET tokens_per_s_now = (
                SELECT value FROM runs_metric WHERE run_id = runs_run.id AND name = 'explore_tokens_per_s'
                ORDER BY step DESC LIMIT 1
            )
            """,
            migrations.RunSQL.noop,
        ),
    ]
