from django.db import migrations, models


def tell(apps, schema_editor):
    """Of sets that were stored before this was kept."""
    tasks = apps.get_model("tasksets", "Task").objects.filter(prompt__contains=[{"content": [{"type": "image"}]}])
    apps.get_model("tasksets", "Taskset").objects.filter(pk__in=tasks.values("taskset")).update(shows_pictures=True)


class Migration(migrations.Migration):
    dependencies = [("tasksets", "0005_growing_sets")]

    operations = [
        migrations.AddField(
            model_name="taskset",
            name="shows_pictures",
            field=models.BooleanField(default=False, help_text="Whether a task of it shows one."),
        ),
        migrations.RunPython(tell, migrations.RunPython.noop),
    ]
