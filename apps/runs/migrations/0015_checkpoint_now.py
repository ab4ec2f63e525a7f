from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0014_knobs_of_steps"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="checkpoint_asked_at",
            field=models.DateTimeField(help_text="Somebody wants one after the next update; NULL: nobody.", null=True),
        ),
        migrations.AddField(model_name="run", name="checkpoint_at", field=models.DateTimeField(null=True)),
        migrations.AddField(
            model_name="run",
            name="checkpoint_step",
            field=models.PositiveIntegerField(help_text="After which update the newest checkpoint was written.", null=True),
        ),
    ]
