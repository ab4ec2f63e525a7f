from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0004_skipped_steps"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="groups_again",
            field=models.PositiveIntegerField(
                db_default=0,
                default=0,
                help_text="Groups in committed updates that an earlier one had taken: experience replay.",
            ),
        ),
    ]
