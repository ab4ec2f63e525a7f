import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

from apps.accounts.create_models import CreateModels


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        CreateModels(
            [
                migrations.CreateModel(
                    name="Taskset",
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
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="tasksets",
                                to="accounts.project",
                            ),
                        ),
                        ("slug", models.SlugField()),
                        ("title", models.CharField(max_length=200)),
                        (
                            "source",
                            models.CharField(
                                help_text="Name of the generator or of the imported file.",
                                max_length=200,
                            ),
                        ),
                        (
                            "seed",
                            models.BigIntegerField(
                                help_text="Seed of the generator; NULL for an import.", null=True
                            ),
                        ),
                        ("size", models.PositiveIntegerField(default=0)),
                        (
                            "quarantined",
                            models.PositiveIntegerField(
                                default=0,
                                help_text="Number of invalid lines that were not imported.",
                            ),
                        ),
                        (
                            "duplicates",
                            models.PositiveIntegerField(
                                db_default=0,
                                default=0,
                                help_text="Number of duplicate tasks in the file that were not imported.",
                            ),
                        ),
                        (
                            "left_out",
                            models.PositiveIntegerField(
                                db_default=0,
                                default=0,
                                help_text="Number of tasks that operators removed during the import.",
                            ),
                        ),
                        (
                            "digest",
                            models.CharField(
                                blank=True,
                                help_text=(
                                    "SHA-256 over the tasks in order; empty for a taskset that still grows."
                                ),
                                max_length=64,
                            ),
                        ),
                        (
                            "first",
                            models.ForeignKey(
                                help_text="Version 1 of this taskset, if this is a later version.",
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="later",
                                to="tasksets.taskset",
                            ),
                        ),
                        ("version", models.PositiveIntegerField(db_default=1, default=1)),
                        (
                            "added",
                            models.PositiveIntegerField(
                                db_default=0,
                                default=0,
                                help_text=(
                                    "Number of tasks that are new compared with the previous version."
                                ),
                            ),
                        ),
                        (
                            "removed",
                            models.PositiveIntegerField(
                                db_default=0,
                                default=0,
                                help_text="Number of tasks of the previous version that were removed.",
                            ),
                        ),
                        (
                            "grows",
                            models.BooleanField(
                                default=False,
                                help_text=(
                                    "Collects the requests to a serving run. No run samples from it."
                                ),
                            ),
                        ),
                        (
                            "shows_pictures",
                            models.BooleanField(
                                default=False, help_text="Whether at least one task has an image."
                            ),
                        ),
                        (
                            "created_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("created_at", models.DateTimeField(auto_now_add=True)),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("project", "slug"), name="one_taskset_per_slug"
                            ),
                            models.UniqueConstraint(
                                fields=("first", "version"), name="one_taskset_per_version"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("first", None), ("version", 1)),
                                    models.Q(("first__isnull", False), ("version__gt", 1)),
                                    _connector="OR",
                                ),
                                name="later_versions_name_their_first",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Task",
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
                            "taskset",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="tasks",
                                to="tasksets.taskset",
                            ),
                        ),
                        ("index", models.PositiveIntegerField()),
                        (
                            "prompt",
                            models.JSONField(
                                help_text="Chat messages: [{role, content}], see apps.tasksets.messages."
                            ),
                        ),
                        (
                            "follow_ups",
                            models.JSONField(
                                default=list,
                                help_text=(
                                    "Texts that the user sends after the policy's replies, in order."
                                ),
                            ),
                        ),
                        (
                            "answer",
                            models.JSONField(
                                default=dict,
                                help_text="Reference answer for scorers. Never shown to the policy.",
                            ),
                        ),
                        ("meta", models.JSONField(default=dict)),
                        (
                            "domain",
                            models.CharField(
                                blank=True,
                                help_text=(
                                    "Subject, for example code, math or biology. Determines the scorers."
                                ),
                                max_length=60,
                            ),
                        ),
                        ("digest", models.CharField(max_length=64)),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("taskset", "index"), name="one_task_per_index"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="TaskParent",
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
                            "task",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="descent",
                                to="tasksets.task",
                            ),
                        ),
                        (
                            "parent",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="descendants",
                                to="tasksets.task",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("task__gt", models.F("parent"))),
                                name="a_task_is_younger_than_its_parent",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="QuarantinedLine",
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
                            "taskset",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="quarantined_lines",
                                to="tasksets.taskset",
                            ),
                        ),
                        ("line", models.PositiveIntegerField()),
                        ("reason", models.CharField(max_length=300)),
                        ("excerpt", models.CharField(max_length=200)),
                        (
                            "same_as",
                            models.PositiveIntegerField(
                                help_text=(
                                    "The earlier line that this one duplicates; NULL if this "
                                    "line is not a valid task."
                                ),
                                null=True,
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["line"],
                    },
                ),
                migrations.CreateModel(
                    name="Picture",
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
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="pictures",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "sha256",
                            models.CharField(
                                help_text=(
                                    "SHA-256 of the PNG in hexadecimal; messages refer to the image by it."
                                ),
                                max_length=64,
                            ),
                        ),
                        ("width", models.PositiveSmallIntegerField(help_text="Pixels.")),
                        ("height", models.PositiveSmallIntegerField(help_text="Pixels.")),
                        ("png", models.BinaryField()),
                        ("created_at", models.DateTimeField(auto_now_add=True)),
                    ],
                    options={
                        "indexes": [models.Index(fields=["sha256"], name="picture_by_name")],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("project", "sha256"), name="one_picture_per_content"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="TasksetImport",
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
                        ("lease_until", models.DateTimeField(null=True)),
                        ("fence", models.BigIntegerField(default=0)),
                        ("lease_owner", models.CharField(blank=True, max_length=200)),
                        ("attempts", models.PositiveSmallIntegerField(default=0)),
                        ("created_at", models.DateTimeField(auto_now_add=True)),
                        ("started_at", models.DateTimeField(null=True)),
                        ("ended_at", models.DateTimeField(null=True)),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="taskset_imports",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="taskset_imports",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "name",
                            models.CharField(
                                help_text="Name of the file or of the dataset.", max_length=200
                            ),
                        ),
                        (
                            "hub",
                            models.JSONField(
                                help_text=(
                                    "Dataset on the Hugging Face Hub: name, config and split. "
                                    "It is downloaded first."
                                ),
                                null=True,
                            ),
                        ),
                        (
                            "suffix",
                            models.CharField(
                                blank=True,
                                help_text="File extension, from which the format may be detected.",
                                max_length=10,
                            ),
                        ),
                        (
                            "bytes",
                            models.BigIntegerField(
                                help_text="Size of the file; 0 until it is downloaded."
                            ),
                        ),
                        (
                            "slug",
                            models.SlugField(blank=True, help_text="Slug of the new taskset."),
                        ),
                        (
                            "how",
                            models.JSONField(
                                default=dict,
                                help_text="Import settings, see apps.tasksets.column_choice.",
                            ),
                        ),
                        (
                            "preview",
                            models.JSONField(
                                help_text=(
                                    "First rows, see apps.tasksets.previewing; NULL until the "
                                    "preview is ready."
                                ),
                                null=True,
                            ),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("looked_at", "looked at"),
                                    ("waiting", "waiting"),
                                    ("running", "running"),
                                    ("done", "done"),
                                    ("failed", "failed"),
                                    ("stopped", "stopped"),
                                ],
                                default="looked_at",
                                max_length=9,
                            ),
                        ),
                        (
                            "rows",
                            models.PositiveIntegerField(default=0, help_text="Rows read so far."),
                        ),
                        ("at", models.BigIntegerField(default=0, help_text="Bytes read so far.")),
                        (
                            "reason",
                            models.CharField(
                                blank=True,
                                help_text="Why the import failed, or who stopped it.",
                                max_length=300,
                            ),
                        ),
                        (
                            "bad",
                            models.JSONField(
                                default=list,
                                help_text="First invalid lines: [line, reason, excerpt].",
                            ),
                        ),
                        (
                            "bad_count",
                            models.PositiveIntegerField(
                                default=0, help_text="Number of invalid lines."
                            ),
                        ),
                        (
                            "taskset",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="imports",
                                to="tasksets.taskset",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-pk"],
                        "indexes": [
                            models.Index(fields=["project", "-id"], name="imports_of_a_project"),
                            models.Index(
                                condition=models.Q(("state__in", ["waiting", "running"])),
                                fields=["id"],
                                name="open_imports",
                            ),
                        ],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("state", "failed"), _negated=True),
                                    models.Q(("reason", ""), _negated=True),
                                    _connector="OR",
                                ),
                                name="a_failed_import_says_why",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="DifficultyScale",
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
                            "taskset",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="scales",
                                to="tasksets.taskset",
                            ),
                        ),
                        ("name", models.CharField(max_length=60)),
                        (
                            "source",
                            models.CharField(help_text="Source of the values.", max_length=200),
                        ),
                        (
                            "ready",
                            models.BooleanField(
                                default=True,
                                help_text=(
                                    "Every task has a value and a place. False while values "
                                    "are being estimated."
                                ),
                            ),
                        ),
                        (
                            "bands",
                            models.JSONField(
                                default=dict,
                                help_text=(
                                    "For a scale of named levels: "
                                    "{name: [first place, place after the last]}."
                                ),
                            ),
                        ),
                        (
                            "created_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("taskset", "name"), name="one_scale_per_name"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="TaskDifficulty",
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
                            "scale",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="difficulties",
                                to="tasksets.difficultyscale",
                            ),
                        ),
                        (
                            "task",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="tasksets.task",
                            ),
                        ),
                        ("value", models.FloatField()),
                        (
                            "place",
                            models.PositiveIntegerField(
                                help_text="NULL until the scale is ready.", null=True
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["scale", "value", "place"], name="places_by_value")
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("scale", "place"), name="one_task_per_place"
                            ),
                            models.UniqueConstraint(
                                fields=("scale", "task"), name="one_place_per_task"
                            ),
                        ],
                    },
                ),
            ]
        ),
    ]
