from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("buffer", "0004_replays"),
        ("runs", "0005_groups_taken_again"),
    ]

    operations = [
        migrations.AddField(
            model_name="stepitem",
            name="is_again",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="An earlier update had taken it: experience replay. Not said of an expert's.",
            ),
        ),
    ]
