import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Policy",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
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
                        default=False, help_text="Whether the model accepts images in tasks."
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
                    models.UniqueConstraint(fields=("project", "slug"), name="one_policy_per_slug")
                ],
            },
        ),
    ]
