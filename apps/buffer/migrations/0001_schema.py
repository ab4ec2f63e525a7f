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
                    name="Experience",
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
                                related_name="experiences",
                                to="runs.run",
                            ),
                        ),
                        (
                            "group",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="experiences",
                                to="rollouts.group",
                            ),
                        ),
                        (
                            "rollout",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="experiences",
                                to="rollouts.rollout",
                            ),
                        ),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("usual", "Usual"),
                                    ("expert", "Expert"),
                                    ("synthetic", "Synthetic"),
                                ],
                                default="usual",
                                max_length=9,
                            ),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("ready", "Ready"),
                                    ("claimed", "Claimed"),
                                    ("trained", "Trained"),
                                    ("dropped", "Dropped"),
                                ],
                                default="ready",
                                max_length=7,
                            ),
                        ),
                        ("reason", models.CharField(blank=True, max_length=200)),
                        (
                            "reward",
                            models.FloatField(
                                help_text=(
                                    "Combined reward at admission; later ratings never change "
                                    "it. NULL for unrated expert answers."
                                ),
                                null=True,
                            ),
                        ),
                        ("advantage", models.FloatField()),
                        (
                            "weight_version",
                            models.PositiveIntegerField(
                                help_text="Oldest weight version that sampled one of its tokens."
                            ),
                        ),
                        (
                            "uses",
                            models.PositiveIntegerField(
                                default=0, help_text="Number of committed steps that trained on it."
                            ),
                        ),
                        ("created_at", models.DateTimeField(auto_now_add=True)),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("state", "ready")),
                                fields=["run", "group"],
                                name="ready_experiences",
                            ),
                            models.Index(
                                condition=models.Q(("state", "trained"), _negated=True),
                                fields=["run", "state"],
                                name="untrained_experiences",
                            ),
                            models.Index(
                                condition=models.Q(("state", "dropped")),
                                fields=["run", "-id"],
                                name="dropped_experiences",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("rollout", "kind"),
                                name="one_experience_per_rollout_and_kind",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("reward__gt", float("-inf")),
                                    ("reward__lt", float("inf")),
                                    ("advantage__gt", float("-inf")),
                                    ("advantage__lt", float("inf")),
                                ),
                                name="experiences_are_finite",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("state", "dropped"), _negated=True),
                                    models.Q(("reason", ""), _negated=True),
                                    _connector="OR",
                                ),
                                name="a_dropped_experience_says_why",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("kind", "expert"), ("reward__isnull", False), _connector="OR"
                                ),
                                name="what_was_sampled_has_a_reward",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Offspring",
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
                                related_name="offspring",
                                to="runs.run",
                            ),
                        ),
                        (
                            "of",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="offspring",
                                to="rollouts.rollout",
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
                        (
                            "tokens",
                            models.PositiveIntegerField(
                                help_text=(
                                    "Number of tokens kept from the start of the parent's completion."
                                )
                            ),
                        ),
                        (
                            "key",
                            models.CharField(
                                help_text="SHA-256 of the content; unique within a run.",
                                max_length=64,
                            ),
                        ),
                        (
                            "rollout",
                            models.OneToOneField(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="descent",
                                to="rollouts.rollout",
                            ),
                        ),
                        (
                            "refused",
                            models.CharField(
                                blank=True,
                                db_default="",
                                default="",
                                help_text="Why no rollout was made.",
                                max_length=200,
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
                        "indexes": [
                            models.Index(
                                condition=models.Q(("refused", ""), ("rollout", None)),
                                fields=["run"],
                                name="offspring_to_take_in",
                            )
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("run", "key"), name="one_offspring_per_key"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("rollout", None), ("refused", ""), _connector="OR"
                                ),
                                name="what_is_refused_is_not_there",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Release",
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
                                related_name="releases",
                                to="runs.run",
                            ),
                        ),
                        ("groups", models.PositiveIntegerField()),
                        ("rollouts", models.PositiveIntegerField()),
                        ("bytes", models.BigIntegerField(help_text="Bytes of the arrays.")),
                        (
                            "at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="StepItem",
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
                            "step",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="items",
                                to="runs.trainstep",
                            ),
                        ),
                        (
                            "experience",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="step_items",
                                to="buffer.experience",
                            ),
                        ),
                        ("position", models.PositiveIntegerField()),
                        (
                            "advantage",
                            models.FloatField(
                                help_text=(
                                    "Advantage in this step; NULL if it is the experience's own advantage."
                                ),
                                null=True,
                            ),
                        ),
                        (
                            "token_advantages",
                            models.BinaryField(
                                help_text="float32 per completion token, if they differ.", null=True
                            ),
                        ),
                        (
                            "is_again",
                            models.BooleanField(
                                db_default=False,
                                default=False,
                                help_text=(
                                    "An earlier step had used it (experience replay). Never "
                                    "true for expert data."
                                ),
                            ),
                        ),
                        (
                            "left_out",
                            models.CharField(
                                blank=True,
                                db_default="",
                                default="",
                                help_text="Which operator excluded it from this step, and why.",
                                max_length=200,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("left_out", ""), _negated=True),
                                fields=["-id"],
                                name="left_out_of_updates",
                            )
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("step", "experience"), name="once_per_step"
                            ),
                            models.UniqueConstraint(
                                fields=("step", "position"), name="one_experience_per_position"
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Recorded",
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
                                related_name="recorded",
                                to="runs.run",
                            ),
                        ),
                        ("recorded_step", models.PositiveIntegerField()),
                        (
                            "step",
                            models.PositiveIntegerField(
                                help_text=(
                                    "Step of this run; NULL if not numbered or if nothing is "
                                    "left to replay."
                                ),
                                null=True,
                            ),
                        ),
                        ("place", models.PositiveIntegerField(help_text="Order within the step.")),
                        (
                            "group",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="recorded",
                                to="rollouts.group",
                            ),
                        ),
                        (
                            "expert",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="recorded",
                                to="rollouts.rollout",
                            ),
                        ),
                        (
                            "of",
                            models.ForeignKey(
                                help_text="ID of the copied row.",
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="replays",
                                to="rollouts.group",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["run", "step"], name="recorded_rows_of_a_step")
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("run", "recorded_step", "place"),
                                name="one_recorded_row_per_place",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Seed",
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
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="seeds",
                                to="runs.run",
                            ),
                        ),
                        (
                            "group",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="seed",
                                to="rollouts.group",
                            ),
                        ),
                        (
                            "of",
                            models.ForeignKey(
                                help_text="ID of the copied row.",
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="seeded",
                                to="rollouts.group",
                            ),
                        ),
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
                                fields=("run", "of"), name="a_group_seeds_a_run_once"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Snapshot",
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
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="snapshot",
                                to="runs.run",
                            ),
                        ),
                        (
                            "source",
                            models.CharField(
                                help_text="demonstrations, preferences or thumbs.", max_length=14
                            ),
                        ),
                        ("size", models.PositiveIntegerField(default=0)),
                        (
                            "digest",
                            models.CharField(
                                help_text="SHA-256 over the lessons' IDs and digests, in order.",
                                max_length=64,
                            ),
                        ),
                        ("at", models.DateTimeField(auto_now_add=True)),
                    ],
                ),
                migrations.CreateModel(
                    name="SnapshotItem",
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
                            "snapshot",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="items",
                                to="buffer.snapshot",
                            ),
                        ),
                        ("position", models.PositiveIntegerField()),
                        (
                            "lesson",
                            models.BigIntegerField(
                                help_text="ID of the lesson in the snapshot's source."
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("snapshot", "position"), name="one_lesson_per_place"
                            ),
                            models.UniqueConstraint(
                                fields=("snapshot", "lesson"), name="one_place_per_lesson"
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="StepLesson",
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
                            "step",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="lessons",
                                to="runs.trainstep",
                            ),
                        ),
                        (
                            "item",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="step_lessons",
                                to="buffer.snapshotitem",
                            ),
                        ),
                        ("position", models.PositiveIntegerField()),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("step", "position"), name="one_lesson_per_position"
                            )
                        ],
                    },
                ),
            ]
        ),
    ]
