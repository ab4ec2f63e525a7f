import django.contrib.auth.models
import django.contrib.auth.validators
import django.db.models.deletion
import django.db.models.functions.datetime
import django.utils.timezone
from django.conf import settings
from django.core.management import call_command
from django.db import migrations, models

from apps.accounts.create_models import CreateModels


def make_cache_table(apps, schema_editor):
    """Create the table of settings.CACHES, unless it exists."""
    call_command("createcachetable", database=schema_editor.connection.alias, verbosity=0)


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        CreateModels(
            [
                migrations.CreateModel(
                    name="Project",
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
                        ("slug", models.SlugField(unique=True)),
                        ("title", models.CharField(max_length=200)),
                        ("created_at", models.DateTimeField(auto_now_add=True)),
                    ],
                ),
                migrations.CreateModel(
                    name="User",
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
                        ("password", models.CharField(max_length=128, verbose_name="password")),
                        (
                            "last_login",
                            models.DateTimeField(blank=True, null=True, verbose_name="last login"),
                        ),
                        (
                            "is_superuser",
                            models.BooleanField(
                                default=False,
                                help_text="Designates that this user has all permissions without explicitly assigning them.",
                                verbose_name="superuser status",
                            ),
                        ),
                        (
                            "username",
                            models.CharField(
                                error_messages={
                                    "unique": "A user with that username already exists."
                                },
                                help_text="Required. 150 characters or fewer. Letters, digits and @/./+/-/_ only.",
                                max_length=150,
                                unique=True,
                                validators=[
                                    django.contrib.auth.validators.UnicodeUsernameValidator()
                                ],
                                verbose_name="username",
                            ),
                        ),
                        (
                            "first_name",
                            models.CharField(blank=True, max_length=150, verbose_name="first name"),
                        ),
                        (
                            "last_name",
                            models.CharField(blank=True, max_length=150, verbose_name="last name"),
                        ),
                        (
                            "email",
                            models.EmailField(
                                blank=True, max_length=254, verbose_name="email address"
                            ),
                        ),
                        (
                            "is_staff",
                            models.BooleanField(
                                default=False,
                                help_text="Designates whether the user can log into this admin site.",
                                verbose_name="staff status",
                            ),
                        ),
                        (
                            "is_active",
                            models.BooleanField(
                                default=True,
                                help_text="Designates whether this user should be treated as active. Unselect this instead of deleting accounts.",
                                verbose_name="active",
                            ),
                        ),
                        (
                            "date_joined",
                            models.DateTimeField(
                                default=django.utils.timezone.now, verbose_name="date joined"
                            ),
                        ),
                        (
                            "is_simulated",
                            models.BooleanField(
                                default=False,
                                help_text=(
                                    "A program that gives ratings; its ratings are labelled as simulated."
                                ),
                            ),
                        ),
                        (
                            "imported_into",
                            models.ForeignKey(
                                blank=True,
                                editable=False,
                                help_text=(
                                    "Project whose imported files name this author. Empty for "
                                    "accounts that can log in."
                                ),
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="imported_raters",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "rating_keys",
                            models.JSONField(
                                blank=True,
                                default=dict,
                                help_text=(
                                    "Custom keys of the rating page by action (apps.accounts.rating_keys)."
                                ),
                            ),
                        ),
                        (
                            "tour_step",
                            models.PositiveSmallIntegerField(
                                db_default=1,
                                default=1,
                                help_text="Next step of the tour of the demo run; 0 for no tour.",
                            ),
                        ),
                        (
                            "password_changed_at",
                            models.DateTimeField(
                                editable=False,
                                help_text="API tokens issued before the last change of the password are not accepted.",
                                null=True,
                            ),
                        ),
                        (
                            "groups",
                            models.ManyToManyField(
                                blank=True,
                                help_text="The groups this user belongs to. A user will get all permissions granted to each of their groups.",
                                related_name="user_set",
                                related_query_name="user",
                                to="auth.group",
                                verbose_name="groups",
                            ),
                        ),
                        (
                            "user_permissions",
                            models.ManyToManyField(
                                blank=True,
                                help_text="Specific permissions for this user.",
                                related_name="user_set",
                                related_query_name="user",
                                to="auth.permission",
                                verbose_name="user permissions",
                            ),
                        ),
                    ],
                    options={
                        "verbose_name": "user",
                        "verbose_name_plural": "users",
                        "abstract": False,
                    },
                    managers=[
                        ("objects", django.contrib.auth.models.UserManager()),
                    ],
                ),
                migrations.CreateModel(
                    name="Membership",
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
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="memberships",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "user",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="memberships",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "role",
                            models.CharField(
                                choices=[
                                    ("owner", "Owner"),
                                    ("researcher", "Researcher"),
                                    ("rater", "Rater"),
                                    ("viewer", "Viewer"),
                                ],
                                max_length=16,
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("project", "user"), name="one_role_per_project"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Invitation",
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
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="invitations",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "role",
                            models.CharField(
                                choices=[
                                    ("owner", "Owner"),
                                    ("researcher", "Researcher"),
                                    ("rater", "Rater"),
                                    ("viewer", "Viewer"),
                                ],
                                max_length=16,
                            ),
                        ),
                        (
                            "note",
                            models.CharField(
                                blank=True, help_text="Who the link is meant for.", max_length=100
                            ),
                        ),
                        ("digest", models.CharField(max_length=64, unique=True)),
                        ("last_four", models.CharField(max_length=4)),
                        ("max_uses", models.PositiveSmallIntegerField(default=1)),
                        ("uses", models.PositiveSmallIntegerField(default=0)),
                        (
                            "created_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="invitations",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "created_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                        ("expires_at", models.DateTimeField()),
                        ("revoked_at", models.DateTimeField(null=True)),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("uses__lte", models.F("max_uses"))),
                                name="invitation_within_its_uses",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Token",
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
                            "user",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="tokens",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("name", models.CharField(max_length=100)),
                        ("digest", models.CharField(max_length=64, unique=True)),
                        ("last_four", models.CharField(max_length=4)),
                        ("scopes", models.JSONField(default=list)),
                        ("created_at", models.DateTimeField(auto_now_add=True)),
                        ("expires_at", models.DateTimeField()),
                        ("last_used_at", models.DateTimeField(null=True)),
                        ("revoked_at", models.DateTimeField(null=True)),
                    ],
                ),
                migrations.CreateModel(
                    name="OnceRequest",
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
                            "user",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("key", models.CharField(max_length=255)),
                        (
                            "digest",
                            models.CharField(
                                help_text="Digest of method, URL and body.", max_length=64
                            ),
                        ),
                        (
                            "begun_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                        (
                            "status",
                            models.PositiveSmallIntegerField(
                                help_text="Status of the response; NULL until there is one.",
                                null=True,
                            ),
                        ),
                        ("answer", models.JSONField(null=True)),
                    ],
                    options={
                        "indexes": [models.Index(fields=["begun_at"], name="old_requests")],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("user", "key"), name="one_request_per_key"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="AuditEntry",
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
                            "at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                        (
                            "by",
                            models.ForeignKey(
                                help_text="NULL for actions on the installation.",
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "name",
                            models.CharField(
                                blank=True,
                                help_text=(
                                    "Name of the person at that time; kept after the account is deleted."
                                ),
                                max_length=150,
                            ),
                        ),
                        (
                            "action",
                            models.CharField(
                                help_text="Object and verb, for example `run paused`.",
                                max_length=60,
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="audit_entries",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "target",
                            models.CharField(
                                help_text=(
                                    "Name of the object, for example `run demo/tone`; kept "
                                    "after it is deleted."
                                ),
                                max_length=200,
                            ),
                        ),
                        (
                            "details",
                            models.JSONField(
                                default=dict,
                                help_text="Values before and after, and reasons. Never secrets.",
                            ),
                        ),
                    ],
                    options={
                        "verbose_name_plural": "audit entries",
                        "indexes": [
                            models.Index(fields=["project", "-id"], name="audit_of_a_project")
                        ],
                    },
                ),
            ]
        ),
        migrations.RunPython(make_cache_table, migrations.RunPython.noop),
        migrations.AddField(
            model_name="project",
            name="archived_at",
            field=models.DateTimeField(
                editable=False,
                help_text="When the project was archived. Lists hide it, and its runs cannot start.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="project",
            name="deleting_since",
            field=models.DateTimeField(
                editable=False,
                help_text="When its deletion was requested. Its contents can no longer be seen or changed.",
                null=True,
            ),
        ),
        CreateModels(
            [
                migrations.CreateModel(
                    name="RaterGroup",
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
                        ("name", models.CharField(max_length=60)),
                        (
                            "members",
                            models.ManyToManyField(
                                blank=True, related_name="rater_groups", to=settings.AUTH_USER_MODEL
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="rater_groups",
                                to="accounts.project",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["name"],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("project", "name"), name="one_rater_group_per_name"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="InvitationMail",
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
                        ("address", models.EmailField(max_length=254)),
                        ("sealed_link", models.TextField(blank=True, editable=False)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("waiting", "waiting"),
                                    ("sent", "sent"),
                                    ("failed", "not sent"),
                                ],
                                default="waiting",
                                max_length=7,
                            ),
                        ),
                        (
                            "reason",
                            models.CharField(
                                blank=True, help_text="Why it was not sent.", max_length=300
                            ),
                        ),
                        ("attempts", models.PositiveSmallIntegerField(default=0)),
                        (
                            "due_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                        ("sent_at", models.DateTimeField(null=True)),
                        (
                            "invitation",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="mail",
                                to="accounts.invitation",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("state", "waiting")),
                                fields=["due_at"],
                                name="due_invitations",
                            )
                        ],
                    },
                ),
            ]
        ),
    ]
