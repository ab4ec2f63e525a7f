import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tasksets", "0012_left_out_by_operators"),
    ]

    operations = [
        migrations.CreateModel(
            name="TaskParent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "parent",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="descendants", to="tasksets.task"),
                ),
                (
                    "task",
                    models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name="descent", to="tasksets.task"),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("task__gt", models.F("parent"))), name="a_task_is_younger_than_its_parent"
                    )
                ],
            },
        ),
    ]
