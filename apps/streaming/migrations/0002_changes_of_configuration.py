from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("streaming", "0001_initial"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="event",
            index=models.Index(condition=models.Q(kind="config_changed"), fields=["topic", "-id"], name="changes_of_configuration"),
        ),
    ]
