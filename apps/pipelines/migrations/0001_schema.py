import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

from apps.accounts.create_models import CreateModels


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("rollouts", "0001_schema"),
        ("runs", "0001_schema"),
        ("tasksets", "0001_schema"),
    ]

    operations = [
        CreateModels(
            [
                migrations.CreateModel(
                    name="OperatorCount",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="operator_counts",
                                to="runs.run",
                            ),
                        ),
                        (
                            "place",
                            models.PositiveSmallIntegerField(
                                help_text="Index in the pipeline, from 0."
                            ),
                        ),
                        ("operator", models.CharField(max_length=60)),
                        ("given", models.PositiveBigIntegerField(default=0)),
                        ("kept", models.PositiveBigIntegerField(default=0)),
                        (
                            "made",
                            models.PositiveBigIntegerField(
                                db_default=0, default=0, help_text="Rows added by the operator."
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["place", "operator"],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("run", "place", "operator"),
                                name="one_count_per_operator_and_place",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("kept__lte", models.F("given"))),
                                name="an_operator_keeps_no_more_than_it_gets",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="OwnExpert",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="own_experts",
                                to="runs.run",
                            ),
                        ),
                        (
                            "task",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="tasksets.task",
                            ),
                        ),
                        ("number", models.PositiveSmallIntegerField()),
                        (
                            "rollout",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="own_expert",
                                to="rollouts.rollout",
                            ),
                        ),
                        (
                            "place",
                            models.PositiveSmallIntegerField(
                                help_text="Index of the operator in the pipeline, from 0."
                            ),
                        ),
                        ("operator", models.CharField(max_length=60)),
                        ("reason", models.CharField(max_length=200)),
                        (
                            "at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("run", "task", "number"), name="one_own_expert_per_number"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="CutRollout",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="cut_rollouts",
                                to="runs.run",
                            ),
                        ),
                        (
                            "rollout",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="cut",
                                to="rollouts.rollout",
                            ),
                        ),
                        (
                            "place",
                            models.PositiveSmallIntegerField(
                                help_text="Index of the operator in the pipeline, from 0."
                            ),
                        ),
                        ("operator", models.CharField(max_length=60)),
                        ("reason", models.CharField(max_length=200)),
                        ("is_silent", models.BooleanField(default=False)),
                        (
                            "at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["run", "-id"], name="newest_cuts_of_a_run")
                        ],
                    },
                ),
            ]
        ),
    ]
