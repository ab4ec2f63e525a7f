from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("rollouts", "0014_chats"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="group",
            index=models.Index(condition=models.Q(("state", "dropped")), fields=["run", "-id"], name="dropped_groups"),
        ),
    ]
