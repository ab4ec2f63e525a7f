from django.db import migrations, models

ROLES = ["explorer", "scorer", "refiner", "trainer", "control", "web", "beat"]


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0021_tokens_per_s_now"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="worker",
            name="web_and_beat_take_no_orders",
        ),
        migrations.AlterField(
            model_name="worker",
            name="role",
            field=models.CharField(
                choices=[(role, role.capitalize()) for role in ROLES], max_length=10
            ),
        ),
        migrations.AlterField(
            model_name="worker",
            name="swept_at",
            field=models.DateTimeField(
                help_text="Of beat and control: when a sweep was last done.", null=True
            ),
        ),
        migrations.AddConstraint(
            model_name="worker",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("role__in", ["web", "beat", "control"]), _negated=True),
                    ("order", ""),
                    _connector="OR",
                ),
                name="only_workers_of_runs_take_orders",
            ),
        ),
    ]
