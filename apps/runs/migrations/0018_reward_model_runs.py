from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0017_what_workers_tell")]

    operations = [
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("config__algorithm__name", "reward_model")), fields=["project"], name="reward_model_runs"
            ),
        ),
    ]
