import django.db.models.deletion
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
                    name="Policy",
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
                                related_name="policies",
                                to="accounts.project",
                            ),
                        ),
                        ("slug", models.SlugField()),
                        ("title", models.CharField(max_length=200)),
                        (
                            "source",
                            models.CharField(
                                help_text="Origin: a folder, a Hub ID with its revision, or a builder.",
                                max_length=300,
                            ),
                        ),
                        (
                            "licence",
                            models.CharField(
                                blank=True,
                                help_text=(
                                    "License of the model as stated by its origin; empty if not stated."
                                ),
                                max_length=200,
                            ),
                        ),
                        (
                            "folder",
                            models.CharField(
                                help_text="Sealed weight folder of version 0.", max_length=1000
                            ),
                        ),
                        ("fingerprint", models.CharField(max_length=64)),
                        ("architecture", models.CharField(max_length=100)),
                        ("parameters", models.BigIntegerField()),
                        ("context_tokens", models.PositiveIntegerField()),
                        (
                            "sees_pictures",
                            models.BooleanField(
                                default=False,
                                help_text="Whether the model accepts images in tasks.",
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
                        "verbose_name_plural": "policies",
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("project", "slug"), name="one_policy_per_slug"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="PolicyImport",
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
                        ("attempts", models.PositiveSmallIntegerField(default=0)),
                        ("lease_owner", models.CharField(blank=True, max_length=200)),
                        ("lease_until", models.DateTimeField(null=True)),
                        ("fence", models.BigIntegerField(default=0)),
                        ("created_at", models.DateTimeField(auto_now_add=True)),
                        ("started_at", models.DateTimeField(null=True)),
                        ("ended_at", models.DateTimeField(null=True)),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("hub", "Hugging Face Hub"),
                                    ("named", "built-in model"),
                                    ("server", "folder or file on the server"),
                                    ("upload", "upload"),
                                ],
                                max_length=6,
                            ),
                        ),
                        (
                            "source",
                            models.CharField(
                                help_text="A Hub ID, a built-in model, or a path below RFTWEB_MODELS.",
                                max_length=300,
                            ),
                        ),
                        (
                            "revision",
                            models.CharField(
                                blank=True,
                                help_text=("Branch, tag or commit on the Hub."),
                                max_length=100,
                            ),
                        ),
                        ("slug", models.SlugField(help_text="Slug of the new model.")),
                        ("title", models.CharField(max_length=200)),
                        (
                            "template",
                            models.CharField(
                                blank=True,
                                help_text="Chat template by name; empty keeps the model's own.",
                                max_length=20,
                            ),
                        ),
                        (
                            "template_text",
                            models.TextField(
                                blank=True, help_text="Chat template that the user wrote."
                            ),
                        ),
                        (
                            "files",
                            models.JSONField(
                                default=dict,
                                help_text="Of an upload: the size of each file in bytes, by name.",
                            ),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("uploading", "uploading"),
                                    ("waiting", "waiting"),
                                    ("running", "running"),
                                    ("done", "done"),
                                    ("failed", "failed"),
                                    ("stopped", "stopped"),
                                ],
                                default="waiting",
                                max_length=9,
                            ),
                        ),
                        (
                            "stage",
                            models.CharField(
                                blank=True, help_text="What a worker is doing now.", max_length=100
                            ),
                        ),
                        (
                            "done",
                            models.BigIntegerField(
                                default=0, help_text="Bytes of the stage that are done."
                            ),
                        ),
                        (
                            "total",
                            models.BigIntegerField(
                                default=0, help_text="Bytes of the stage; 0 if unknown."
                            ),
                        ),
                        (
                            "notes",
                            models.JSONField(
                                default=list, help_text="What was noticed about the model."
                            ),
                        ),
                        (
                            "reason",
                            models.CharField(
                                blank=True, help_text="Why it failed.", max_length=500
                            ),
                        ),
                        (
                            "by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "policy",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="imports",
                                to="policies.policy",
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="policy_imports",
                                to="accounts.project",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-pk"],
                        "indexes": [
                            models.Index(
                                fields=["project", "-id"], name="policy_imports_of_a_project"
                            ),
                            models.Index(
                                condition=models.Q(("state__in", ["waiting", "running"])),
                                fields=["id"],
                                name="open_policy_imports",
                            ),
                        ],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("state", "failed"), _negated=True),
                                    models.Q(("reason", ""), _negated=True),
                                    _connector="OR",
                                ),
                                name="a_failed_addition_says_why",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="PolicyRemoval",
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
                        ("attempts", models.PositiveSmallIntegerField(default=0)),
                        ("lease_owner", models.CharField(blank=True, max_length=200)),
                        ("lease_until", models.DateTimeField(null=True)),
                        ("fence", models.BigIntegerField(default=0)),
                        ("created_at", models.DateTimeField(auto_now_add=True)),
                        ("started_at", models.DateTimeField(null=True)),
                        ("ended_at", models.DateTimeField(null=True)),
                        ("slug", models.SlugField(help_text="Of the model that was deleted.")),
                        ("folder", models.CharField(max_length=1000)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("waiting", "waiting"),
                                    ("running", "running"),
                                    ("done", "done"),
                                    ("failed", "failed"),
                                ],
                                default="waiting",
                                max_length=9,
                            ),
                        ),
                        (
                            "reason",
                            models.CharField(
                                blank=True,
                                help_text="Why files are still there, if they are.",
                                max_length=300,
                            ),
                        ),
                        (
                            "by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="accounts.project",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-pk"],
                        "indexes": [
                            models.Index(
                                condition=models.Q(("state__in", ["waiting", "running"])),
                                fields=["id"],
                                name="open_policy_removals",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="TemplatePreview",
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
                        ("attempts", models.PositiveSmallIntegerField(default=0)),
                        ("lease_owner", models.CharField(blank=True, max_length=200)),
                        ("lease_until", models.DateTimeField(null=True)),
                        ("fence", models.BigIntegerField(default=0)),
                        ("created_at", models.DateTimeField(auto_now_add=True)),
                        ("started_at", models.DateTimeField(null=True)),
                        ("ended_at", models.DateTimeField(null=True)),
                        (
                            "messages",
                            models.JSONField(
                                help_text="The conversation: role and content of each message."
                            ),
                        ),
                        (
                            "template",
                            models.CharField(
                                blank=True,
                                help_text="Chat template by name; empty keeps the model's own.",
                                max_length=20,
                            ),
                        ),
                        (
                            "template_text",
                            models.TextField(
                                blank=True, help_text="Chat template that the user wrote."
                            ),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("waiting", "waiting"),
                                    ("running", "running"),
                                    ("done", "done"),
                                    ("failed", "failed"),
                                ],
                                default="waiting",
                                max_length=9,
                            ),
                        ),
                        (
                            "pieces",
                            models.JSONField(
                                default=list,
                                help_text="The rendered text: [text, whether it is a control token].",
                            ),
                        ),
                        (
                            "tokens",
                            models.PositiveIntegerField(
                                default=0, help_text="Tokens of the whole text."
                            ),
                        ),
                        (
                            "reason",
                            models.CharField(
                                blank=True,
                                help_text="Why nothing could be rendered.",
                                max_length=300,
                            ),
                        ),
                        (
                            "by",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "policy",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="previews",
                                to="policies.policy",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-pk"],
                        "indexes": [
                            models.Index(
                                condition=models.Q(("state__in", ["waiting", "running"])),
                                fields=["id"],
                                name="open_template_previews",
                            )
                        ],
                    },
                ),
            ]
        ),
    ]
