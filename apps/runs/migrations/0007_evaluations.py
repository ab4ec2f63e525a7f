import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0005_audit_entries"),
        ("policies", "0002_policies_that_see"),
        ("runs", "0006_several_tasksets"),
        ("streaming", "0001_initial"),
        ("tasksets", "0013_tasks_name_their_parents"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="evaluates",
            field=models.ForeignKey(
                help_text="Whose weights it asks; NULL for a policy's own, and in runs that train.",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="evaluations",
                to="runs.weightversion",
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="evaluation_set",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="The same for all evaluations that ask the same, whatever weights (apps.runs.evaluation.set_of).",
                max_length=16,
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="is_evaluation",
            field=models.BooleanField(
                db_default=False, default=False, help_text="Asks every task once and learns nothing: the others train."
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.CheckConstraint(
                condition=models.Q(("evaluates", None), ("is_evaluation", True), _connector="OR"), name="only_evaluations_evaluate"
            ),
        ),
    ]
