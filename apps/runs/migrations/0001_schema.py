import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.manager
from django.conf import settings
from django.db import migrations, models

from apps.accounts.create_models import CreateModels

# Sum up runs_usage per run and kind. An evaluation's amount also counts for the run whose weight
# version it evaluates. Rows are locked in one order, so that concurrent writers do not deadlock.
KEPT = """
    WITH change AS ({changes})
    INSERT INTO runs_usagetotal AS known (run_id, kind, own, evaluations)
    SELECT run_id, kind, sum(own), sum(evaluations) FROM (
        SELECT run_id, kind, amount AS own, 0 AS evaluations FROM change
        UNION ALL
        SELECT version.run_id, kind, 0, amount FROM change
        JOIN runs_run asking ON asking.id = change.run_id JOIN runs_weightversion version ON version.id = asking.evaluates_id
    ) AS shared GROUP BY run_id, kind ORDER BY run_id, kind
    ON CONFLICT (run_id, kind) DO UPDATE
    SET own = known.own + EXCLUDED.own, evaluations = known.evaluations + EXCLUDED.evaluations"""
ADDED = KEPT.format(changes="SELECT run_id, kind, amount FROM now_there")
CHANGED = KEPT.format(
    changes="SELECT run_id, kind, amount FROM now_there UNION ALL SELECT run_id, kind, -amount FROM there_before"
)

TOTALS = f"""
    CREATE FUNCTION runs_total_usage() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'INSERT' THEN {ADDED};
        ELSE {CHANGED};
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER added_usage AFTER INSERT ON runs_usage REFERENCING NEW TABLE AS now_there
        FOR EACH STATEMENT EXECUTE FUNCTION runs_total_usage();
    CREATE TRIGGER changed_usage AFTER UPDATE ON runs_usage REFERENCING OLD TABLE AS there_before NEW TABLE AS now_there
        FOR EACH STATEMENT EXECUTE FUNCTION runs_total_usage()"""
NO_TOTALS = """
    DROP TRIGGER changed_usage ON runs_usage; DROP TRIGGER added_usage ON runs_usage; DROP FUNCTION runs_total_usage()"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_schema"),
        ("policies", "0001_schema"),
        ("streaming", "0001_schema"),
        ("tasksets", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        CreateModels(
            [
                migrations.CreateModel(
                    name="Worker",
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
                            "key",
                            models.CharField(
                                help_text="role@host:pid:start; also the name of the lease owner.",
                                max_length=80,
                                unique=True,
                            ),
                        ),
                        (
                            "role",
                            models.CharField(
                                choices=[
                                    ("explorer", "Explorer"),
                                    ("scorer", "Scorer"),
                                    ("refiner", "Refiner"),
                                    ("trainer", "Trainer"),
                                    ("control", "Control"),
                                    ("web", "Web"),
                                    ("beat", "Beat"),
                                ],
                                max_length=10,
                            ),
                        ),
                        ("host", models.CharField(max_length=100)),
                        ("pid", models.PositiveIntegerField()),
                        ("device", models.CharField(blank=True, max_length=100)),
                        ("engine", models.CharField(blank=True, max_length=50)),
                        (
                            "details",
                            models.JSONField(
                                default=dict,
                                help_text=(
                                    "Versions of code and libraries, and why the engine was chosen."
                                ),
                            ),
                        ),
                        ("doing", models.CharField(blank=True, max_length=200)),
                        (
                            "for_runs",
                            models.JSONField(
                                db_default={},
                                default=dict,
                                help_text=(
                                    "Current activity by run ID; empty if the worker serves all runs."
                                ),
                            ),
                        ),
                        (
                            "metrics",
                            models.JSONField(
                                db_default={},
                                default=dict,
                                help_text=(
                                    "Memory, CPU and GPU use at the last heartbeat (apps.runs.resource_usage)."
                                ),
                            ),
                        ),
                        ("started_at", models.DateTimeField(auto_now_add=True)),
                        ("heartbeat_at", models.DateTimeField(auto_now_add=True)),
                        ("stopped_at", models.DateTimeField(null=True)),
                        (
                            "stopped_reason",
                            models.CharField(blank=True, db_default="", default="", max_length=200),
                        ),
                        (
                            "swept_at",
                            models.DateTimeField(
                                help_text="For beat and control: time of the last sweep.", null=True
                            ),
                        ),
                        (
                            "order",
                            models.CharField(
                                blank=True,
                                choices=[
                                    ("", "serve"),
                                    ("drain", "Drain"),
                                    ("quarantine", "Quarantine"),
                                ],
                                db_default="",
                                default="",
                                max_length=10,
                            ),
                        ),
                        (
                            "order_reason",
                            models.CharField(blank=True, db_default="", default="", max_length=300),
                        ),
                        (
                            "ordered_by",
                            models.CharField(blank=True, db_default="", default="", max_length=150),
                        ),
                        ("ordered_at", models.DateTimeField(null=True)),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("stopped_at", None)),
                                fields=["role", "-id"],
                                name="workers_that_are_here",
                            )
                        ],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(
                                        ("role__in", ["web", "beat", "control"]), _negated=True
                                    ),
                                    ("order", ""),
                                    _connector="OR",
                                ),
                                name="only_workers_of_runs_take_orders",
                            )
                        ],
                    },
                    managers=[
                        ("every", django.db.models.manager.Manager()),
                    ],
                ),
                migrations.CreateModel(
                    name="Prices",
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
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="prices",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "currency",
                            models.CharField(
                                blank=True,
                                db_default="",
                                default="",
                                help_text="Shown next to amounts, for example € or USD.",
                                max_length=12,
                            ),
                        ),
                        (
                            "gpu_hour",
                            models.FloatField(
                                db_default=0.0, default=0.0, help_text="Price of one GPU hour."
                            ),
                        ),
                        (
                            "cpu_hour",
                            models.FloatField(
                                db_default=0.0, default=0.0, help_text="Price of one CPU core hour."
                            ),
                        ),
                        (
                            "judge_tokens",
                            models.FloatField(
                                db_default=0.0,
                                default=0.0,
                                help_text="Price of 1,000 tokens that a judge reads or writes.",
                            ),
                        ),
                        (
                            "person_hour",
                            models.FloatField(
                                db_default=0.0,
                                default=0.0,
                                help_text="Price of one hour of a rater.",
                            ),
                        ),
                    ],
                    options={
                        "verbose_name_plural": "prices",
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("cpu_hour__gte", 0),
                                    ("gpu_hour__gte", 0),
                                    ("judge_tokens__gte", 0),
                                    ("person_hour__gte", 0),
                                    ("cpu_hour__lt", float("inf")),
                                    ("gpu_hour__lt", float("inf")),
                                    ("judge_tokens__lt", float("inf")),
                                    ("person_hour__lt", float("inf")),
                                ),
                                name="prices_are_finite",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Run",
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
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="runs",
                                to="accounts.project",
                            ),
                        ),
                        ("slug", models.SlugField()),
                        ("title", models.CharField(max_length=200)),
                        (
                            "owner",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="runs",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "policy",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="runs",
                                to="policies.policy",
                            ),
                        ),
                        (
                            "taskset",
                            models.ForeignKey(
                                help_text="NULL if the run samples from several tasksets (see shares).",
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="tasksets.taskset",
                            ),
                        ),
                        (
                            "topic",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="run",
                                to="streaming.topic",
                            ),
                        ),
                        ("config", models.JSONField()),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("created", "not started"),
                                    ("running", "running"),
                                    ("paused", "paused"),
                                    ("stopped", "stopped"),
                                    ("completed", "completed"),
                                    ("deleting", "being deleted"),
                                ],
                                default="created",
                                max_length=10,
                            ),
                        ),
                        (
                            "state_since",
                            models.DateTimeField(
                                help_text="When the run entered its state; NULL if unknown.",
                                null=True,
                            ),
                        ),
                        ("state_reason", models.CharField(blank=True, max_length=500)),
                        (
                            "waiting_on",
                            models.CharField(
                                blank=True,
                                help_text="What the trainer waits for.",
                                max_length=200,
                            ),
                        ),
                        ("planned_steps", models.PositiveIntegerField()),
                        (
                            "step",
                            models.PositiveIntegerField(
                                default=0, help_text="Number of committed optimizer steps."
                            ),
                        ),
                        ("published_version", models.PositiveIntegerField(default=0)),
                        ("groups_opened", models.PositiveIntegerField(default=0)),
                        ("groups_dropped", models.PositiveIntegerField(default=0)),
                        (
                            "groups_again",
                            models.PositiveIntegerField(
                                db_default=0,
                                default=0,
                                help_text=(
                                    "Number of groups in committed steps that an earlier step "
                                    "had used (experience replay)."
                                ),
                            ),
                        ),
                        (
                            "experiences_trained",
                            models.PositiveIntegerField(
                                db_default=0,
                                default=0,
                                help_text=(
                                    "Number of distinct experiences used by committed steps; "
                                    "expert data stays ready."
                                ),
                            ),
                        ),
                        (
                            "checkpoint_requested_at",
                            models.DateTimeField(
                                help_text="A checkpoint was requested after the next step; NULL if not.",
                                null=True,
                            ),
                        ),
                        (
                            "checkpoint_step",
                            models.PositiveIntegerField(
                                help_text="Step of the latest checkpoint.", null=True
                            ),
                        ),
                        ("checkpoint_at", models.DateTimeField(null=True)),
                        (
                            "reward_now",
                            models.FloatField(
                                editable=False,
                                help_text=(
                                    "Mean reward of the latest step that has one, for sorting. "
                                    "Written by Metric.record."
                                ),
                                null=True,
                            ),
                        ),
                        (
                            "tokens_per_s_now",
                            models.FloatField(
                                editable=False,
                                help_text="Tokens per second sampled by explorers, for sorting.",
                                null=True,
                            ),
                        ),
                        (
                            "tags",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.CharField(max_length=30),
                                blank=True,
                                db_default=[],
                                default=list,
                                size=None,
                            ),
                        ),
                        (
                            "notes",
                            models.TextField(
                                blank=True,
                                db_default="",
                                default="",
                                help_text="Free text by users. Changed only by apps.runs.labelling.",
                            ),
                        ),
                        (
                            "archived_at",
                            models.DateTimeField(
                                help_text=(
                                    "When the run was archived. Lists hide archived runs by default."
                                ),
                                null=True,
                            ),
                        ),
                        (
                            "is_evaluation",
                            models.BooleanField(
                                db_default=False,
                                default=False,
                                help_text=(
                                    "An evaluation runs every task and does not train; other runs train."
                                ),
                            ),
                        ),
                        (
                            "evaluation_set",
                            models.CharField(
                                blank=True,
                                db_default="",
                                default="",
                                help_text=(
                                    "Same digest for all evaluations with the same tasks and "
                                    "settings (apps.runs.evaluation.evaluation_key)."
                                ),
                                max_length=16,
                            ),
                        ),
                        (
                            "explored_at",
                            models.DateTimeField(
                                help_text=(
                                    "When an explorer last served the run. The least recently "
                                    "served run comes first."
                                ),
                                null=True,
                            ),
                        ),
                        ("trained_at", models.DateTimeField(null=True)),
                        ("created_at", models.DateTimeField(auto_now_add=True)),
                        ("started_at", models.DateTimeField(null=True)),
                        ("ended_at", models.DateTimeField(null=True)),
                    ],
                    options={
                        "ordering": ["-pk"],
                        "indexes": [
                            models.Index(
                                condition=models.Q(("state", "running")),
                                fields=["state"],
                                name="running_runs",
                            ),
                            django.contrib.postgres.indexes.GinIndex(
                                fields=["tags"], name="tags_of_runs"
                            ),
                            models.Index(
                                condition=models.Q(("config__algorithm__name", "reward_model")),
                                fields=["project"],
                                name="reward_model_runs",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("project", "slug"), name="one_run_per_slug"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("step__lte", models.F("planned_steps"))),
                                name="no_step_beyond_the_plan",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("groups_dropped__lte", models.F("groups_opened"))
                                ),
                                name="no_more_dropped_than_opened",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="LogLine",
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
                        ("at", models.DateTimeField()),
                        (
                            "level",
                            models.PositiveSmallIntegerField(
                                choices=[
                                    (10, "Debug"),
                                    (20, "Info"),
                                    (30, "Warning"),
                                    (40, "Error"),
                                    (50, "Critical"),
                                ]
                            ),
                        ),
                        (
                            "event",
                            models.CharField(
                                help_text="Event name such as `step_committed`, or a sentence.",
                                max_length=200,
                            ),
                        ),
                        ("logger", models.CharField(blank=True, max_length=100)),
                        (
                            "run",
                            models.ForeignKey(
                                db_index=False,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="log_lines",
                                to="runs.run",
                            ),
                        ),
                        (
                            "worker",
                            models.CharField(
                                blank=True,
                                help_text="Key of the process that wrote the line.",
                                max_length=80,
                            ),
                        ),
                        ("fields", models.JSONField(default=dict)),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("run__isnull", False)),
                                fields=["run", "-id"],
                                name="log_of_a_run",
                            ),
                            models.Index(fields=["worker", "-id"], name="log_of_a_worker"),
                            django.contrib.postgres.indexes.BrinIndex(
                                fields=["at"], name="log_by_time", pages_per_range=32
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="WeightVersion",
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
                                related_name="weight_versions",
                                to="runs.run",
                            ),
                        ),
                        ("version", models.PositiveIntegerField()),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("staged", "Staged"),
                                    ("verified", "Verified"),
                                    ("published", "Published"),
                                    ("retired", "Retired"),
                                    ("refused", "Refused"),
                                ],
                                default="staged",
                                max_length=10,
                            ),
                        ),
                        (
                            "parent",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                to="runs.weightversion",
                            ),
                        ),
                        (
                            "step",
                            models.PositiveIntegerField(
                                default=0, help_text="Step after which the weights were saved."
                            ),
                        ),
                        ("folder", models.CharField(max_length=1000)),
                        ("fingerprint", models.CharField(max_length=64)),
                        ("bytes", models.BigIntegerField(default=0)),
                        (
                            "reason",
                            models.CharField(
                                blank=True, help_text="Why the version was refused.", max_length=500
                            ),
                        ),
                        ("staged_at", models.DateTimeField(auto_now_add=True)),
                        ("verified_at", models.DateTimeField(null=True)),
                        ("published_at", models.DateTimeField(null=True)),
                        (
                            "movement",
                            models.JSONField(
                                help_text=(
                                    "Relative L2 change from the parent: total, groups, "
                                    "whether sampled. NULL if not measured."
                                ),
                                null=True,
                            ),
                        ),
                        (
                            "pinned_at",
                            models.DateTimeField(
                                help_text=(
                                    "When the version was pinned. Pinned versions keep their files."
                                ),
                                null=True,
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-version"],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("run", "version"), name="one_weight_version_per_number"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Acknowledgement",
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
                            "weight_version",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="acknowledgements",
                                to="runs.weightversion",
                            ),
                        ),
                        (
                            "worker",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="acknowledgements",
                                to="runs.worker",
                            ),
                        ),
                        ("fingerprint", models.CharField(max_length=64)),
                        (
                            "probe_gap",
                            models.FloatField(
                                help_text=(
                                    "Mean absolute difference from the trainer's probe logprobs, in nats."
                                )
                            ),
                        ),
                        (
                            "milliseconds",
                            models.FloatField(help_text="Milliseconds from pause to resume."),
                        ),
                        ("at", models.DateTimeField(auto_now_add=True)),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("weight_version", "worker"), name="one_word_per_engine"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ExportJob",
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
                            "weight_version",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="orders",
                                to="runs.weightversion",
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
                            "kind",
                            models.CharField(
                                choices=[
                                    ("promote", "create a policy"),
                                    ("branch", "start a run"),
                                    ("export", "export"),
                                    ("push", "push to the Hub"),
                                ],
                                max_length=7,
                            ),
                        ),
                        (
                            "options",
                            models.JSONField(
                                default=dict,
                                help_text="slug, title; steps, start, stop_parent; form; repository, is_public.",
                            ),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("waiting", "waiting"),
                                    ("running", "in progress"),
                                    ("done", "done"),
                                    ("failed", "failed"),
                                ],
                                default="waiting",
                                max_length=7,
                            ),
                        ),
                        (
                            "share",
                            models.FloatField(
                                default=0, help_text="Share of the bytes written, from 0 to 1."
                            ),
                        ),
                        (
                            "reason",
                            models.CharField(
                                blank=True, help_text="Why the job failed.", max_length=500
                            ),
                        ),
                        (
                            "policy",
                            models.ForeignKey(
                                help_text="The policy made from the version.",
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to="policies.policy",
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                help_text="The run that starts from the version.",
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to="runs.run",
                            ),
                        ),
                        (
                            "folder",
                            models.CharField(
                                blank=True,
                                help_text="Path of the export while it exists.",
                                max_length=1000,
                            ),
                        ),
                        (
                            "bytes",
                            models.BigIntegerField(default=0, help_text="Size of the export."),
                        ),
                        (
                            "address",
                            models.URLField(
                                blank=True,
                                help_text="URL of the commit made by a push.",
                                max_length=500,
                            ),
                        ),
                        (
                            "sealed_token",
                            models.TextField(
                                blank=True,
                                editable=False,
                                help_text="Encrypted Hub token for a push.",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-pk"],
                        "indexes": [
                            models.Index(
                                condition=models.Q(("state__in", ["waiting", "running"])),
                                fields=["id"],
                                name="open_orders",
                            )
                        ],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("state", "failed"), _negated=True),
                                    models.Q(("reason", ""), _negated=True),
                                    _connector="OR",
                                ),
                                name="a_failed_order_says_why",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="TasksetShare",
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
                                related_name="shares",
                                to="runs.run",
                            ),
                        ),
                        (
                            "taskset",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="shares",
                                to="tasksets.taskset",
                            ),
                        ),
                        (
                            "share",
                            models.PositiveSmallIntegerField(
                                help_text="Share of the sampled tasks."
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("run", "taskset"), name="one_share_per_taskset_of_a_run"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("share__gt", 0)),
                                name="a_shared_taskset_is_drawn_from",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="MetricSpan",
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
                                related_name="spans",
                                to="runs.run",
                            ),
                        ),
                        ("name", models.CharField(max_length=60)),
                        ("level", models.PositiveSmallIntegerField()),
                        (
                            "first",
                            models.PositiveIntegerField(help_text="First step of the interval."),
                        ),
                        (
                            "count",
                            models.PositiveIntegerField(help_text="Number of steps with a value."),
                        ),
                        ("mean", models.FloatField()),
                        ("low", models.FloatField()),
                        ("high", models.FloatField()),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("run", "name", "level", "first"), name="one_span_per_place"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("level__gte", 1),
                                    ("count__gte", 1),
                                    ("low__lte", models.F("high")),
                                ),
                                name="spans_are_spans",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="TrainStep",
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
                                related_name="steps",
                                to="runs.run",
                            ),
                        ),
                        (
                            "number",
                            models.PositiveIntegerField(help_text="Number of the step, from 1."),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[("planned", "Planned"), ("committed", "Committed")],
                                default="planned",
                                max_length=10,
                            ),
                        ),
                        (
                            "version",
                            models.PositiveIntegerField(
                                help_text="The trainer's weight version when the batch was taken."
                            ),
                        ),
                        ("fence", models.BigIntegerField()),
                        (
                            "knobs",
                            models.JSONField(
                                db_default={},
                                default=dict,
                                help_text=(
                                    "Settings of the step by dotted configuration field; fixed "
                                    "when the batch is taken."
                                ),
                            ),
                        ),
                        (
                            "skipped",
                            models.CharField(
                                blank=True,
                                help_text="Why the step was skipped (loss or gradient not finite).",
                                max_length=200,
                            ),
                        ),
                        ("planned_at", models.DateTimeField(auto_now_add=True)),
                        ("committed_at", models.DateTimeField(null=True)),
                        (
                            "seconds",
                            models.FloatField(
                                help_text="Seconds from planned to committed.", null=True
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-number"],
                        "indexes": [
                            models.Index(
                                condition=models.Q(("skipped", ""), _negated=True),
                                fields=["run"],
                                name="skipped_steps",
                            ),
                            models.Index(fields=["run", "committed_at"], name="steps_by_the_clock"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("run", "number"), name="one_step_per_number"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Metric",
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
                                related_name="metrics",
                                to="runs.run",
                            ),
                        ),
                        ("step", models.PositiveIntegerField()),
                        ("name", models.CharField(max_length=60)),
                        ("value", models.FloatField()),
                        ("at", models.DateTimeField(auto_now_add=True)),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("run", "name", "step"), name="one_value_per_metric_and_step"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("value__gt", float("-inf")), ("value__lt", float("inf"))
                                ),
                                name="metrics_are_finite",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Usage",
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
                                related_name="usage",
                                to="runs.run",
                            ),
                        ),
                        ("kind", models.CharField(max_length=30)),
                        ("worker", models.CharField(blank=True, max_length=80)),
                        ("hour", models.DateTimeField()),
                        ("amount", models.FloatField()),
                    ],
                    options={
                        "verbose_name_plural": "usage",
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("run", "kind", "hour", "worker"),
                                name="one_amount_per_worker_and_hour",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("amount__gte", 0), ("amount__lt", float("inf"))
                                ),
                                name="amounts_are_finite",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="UsageTotal",
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
                                related_name="usage_totals",
                                to="runs.run",
                            ),
                        ),
                        ("kind", models.CharField(max_length=30)),
                        ("own", models.FloatField()),
                        (
                            "evaluations",
                            models.FloatField(
                                help_text="Amount used by all evaluations of the run's weight versions."
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("run", "kind"), name="one_total_of_a_kind"
                            )
                        ],
                    },
                ),
            ]
        ),
        migrations.AddField(
            model_name="run",
            name="branched_from",
            field=models.ForeignKey(
                help_text="State inherited from another run.",
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="branches",
                to="runs.weightversion",
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="evaluates",
            field=models.ForeignKey(
                help_text=(
                    "Weight version to evaluate; NULL for the policy's own weights and "
                    "for training runs."
                ),
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="evaluations",
                to="runs.weightversion",
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.CheckConstraint(
                condition=models.Q(("evaluates", None), ("is_evaluation", True), _connector="OR"),
                name="only_evaluations_evaluate",
            ),
        ),
        migrations.RunSQL(TOTALS, NO_TOTALS),
        CreateModels(
            [
                migrations.CreateModel(
                    name="RunRemoval",
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
                            "run_number",
                            models.BigIntegerField(
                                help_text="ID of the run, which its folder is named after."
                            ),
                        ),
                        ("slug", models.SlugField(help_text="Of the run.")),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("waiting", "waiting"),
                                    ("running", "deleting"),
                                    ("done", "deleted"),
                                    ("failed", "failed"),
                                ],
                                default="waiting",
                                max_length=7,
                            ),
                        ),
                        (
                            "total",
                            models.BigIntegerField(
                                default=0, help_text="Rows to delete, as counted at first."
                            ),
                        ),
                        (
                            "done",
                            models.BigIntegerField(default=0, help_text="Rows deleted so far."),
                        ),
                        (
                            "bytes",
                            models.BigIntegerField(
                                default=0, help_text="Bytes of files deleted so far."
                            ),
                        ),
                        (
                            "reason",
                            models.CharField(
                                blank=True,
                                help_text="What the deletion waits for, or why it failed.",
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
                                related_name="run_removals",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "run",
                            models.OneToOneField(
                                help_text="NULL once the run is gone.",
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="removal",
                                to="runs.run",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-pk"],
                        "indexes": [
                            models.Index(
                                fields=["project", "-id"], name="run_removals_of_a_project"
                            ),
                            models.Index(
                                condition=models.Q(("state__in", ["waiting", "running"])),
                                fields=["id"],
                                name="open_run_removals",
                            ),
                        ],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("state", "failed"), _negated=True),
                                    models.Q(("reason", ""), _negated=True),
                                    _connector="OR",
                                ),
                                name="a_failed_deletion_says_why",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ProjectRemoval",
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
                            "state",
                            models.CharField(
                                choices=[
                                    ("waiting", "waiting"),
                                    ("running", "deleting"),
                                    ("done", "deleted"),
                                    ("failed", "failed"),
                                ],
                                default="waiting",
                                max_length=7,
                            ),
                        ),
                        (
                            "total",
                            models.BigIntegerField(
                                default=0, help_text="Rows to delete, as counted at first."
                            ),
                        ),
                        (
                            "done",
                            models.BigIntegerField(default=0, help_text="Rows deleted so far."),
                        ),
                        (
                            "bytes",
                            models.BigIntegerField(
                                default=0, help_text="Bytes of files deleted so far."
                            ),
                        ),
                        (
                            "reason",
                            models.CharField(
                                blank=True,
                                help_text="What the deletion waits for, or why it failed.",
                                max_length=300,
                            ),
                        ),
                        ("slug", models.SlugField(help_text="Of the project.")),
                        ("title", models.CharField(help_text="Of the project.", max_length=200)),
                        (
                            "runs",
                            models.PositiveIntegerField(
                                default=0, help_text="Runs that the project had."
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
                            models.OneToOneField(
                                help_text="NULL once the project is gone.",
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="removal",
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
                                name="open_project_removals",
                            )
                        ],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("state", "failed"), _negated=True),
                                    models.Q(("reason", ""), _negated=True),
                                    _connector="OR",
                                ),
                                name="a_failed_project_deletion_says_why",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ChartView",
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
                            "query",
                            models.TextField(
                                help_text="The query string, as the charts page writes it."
                            ),
                        ),
                        (
                            "is_shared",
                            models.BooleanField(
                                default=False, help_text="Other members of the project see it, too."
                            ),
                        ),
                        (
                            "at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                        (
                            "owner",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="chart_views",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="chart_views",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                help_text="NULL: every run of the project.",
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="chart_views",
                                to="runs.run",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["name", "pk"],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("run", "owner", "name"),
                                name="one_chart_view_per_name_and_run",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("run", None)),
                                fields=("project", "owner", "name"),
                                name="one_chart_view_per_name_and_project",
                            ),
                        ],
                    },
                ),
            ]
        ),
    ]
