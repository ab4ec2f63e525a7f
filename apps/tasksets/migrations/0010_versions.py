import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [
        ("tasksets", "0009_taskset_imports"),
    ]

    operations = [
        migrations.AddField(
            model_name="taskset",
            name="first",
            field=models.ForeignKey(
                help_text="Version 1 of what this is a later version of.",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="later",
                to="tasksets.taskset",
            ),
        ),
        migrations.AddField(
            model_name="taskset",
            name="version",
            field=models.PositiveIntegerField(db_default=1, default=1),
        ),
        migrations.AddField(
            model_name="taskset",
            name="added",
            field=models.PositiveIntegerField(db_default=0, default=0, help_text="Tasks that the version before had not."),
        ),
        migrations.AddField(
            model_name="taskset",
            name="removed",
            field=models.PositiveIntegerField(db_default=0, default=0, help_text="Tasks of the version before that it has not."),
        ),
        migrations.AddConstraint(
            model_name="taskset",
            constraint=models.UniqueConstraint(fields=("first", "version"), name="one_taskset_per_version"),
        ),
        migrations.AddConstraint(
            model_name="taskset",
            constraint=models.CheckConstraint(
                condition=Q(("first", None), ("version", 1)) | Q(("first__isnull", False), ("version__gt", 1)),
                name="later_versions_name_their_first",
            ),
        ),
    ]
