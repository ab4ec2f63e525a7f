import django.db.models.deletion
import django.db.models.expressions
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

from apps.accounts.create_models import CreateModels

# Token ids and logprobs do not compress; stored as they are, they are read and written several
# times faster.
KEEP_UNCOMPRESSED = "ALTER TABLE rollouts_rolloutpayload ALTER COLUMN data SET STORAGE EXTERNAL"
COMPRESS = "ALTER TABLE rollouts_rolloutpayload ALTER COLUMN data SET STORAGE EXTENDED"

# Full-text search of ended rollouts (apps.rollouts.full_text_search). Full-text search is part of
# PostgreSQL, so no extension is needed. The text of an ended rollout never changes, and rollouts
# that are being sampled are not in the index: each costs one entry, which `fastupdate` (the
# default) gathers with others. Statistics are off: with them every ANALYZE would parse thousands of
# texts, and for a query that names a run and a part of it the index is always cheapest.
INDEX_WORDS = """
    CREATE INDEX rollouts_by_words ON rollouts_rollout USING gin ((
        to_tsvector('simple', left(text, 100000)) || array_to_tsvector(
            ARRAY[' run ' || run_id::text, ' part ' || (id >> 12)::text])))
    WHERE state <> 'sampling';
    ALTER INDEX rollouts_by_words ALTER COLUMN 1 SET STATISTICS 0"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("policies", "0001_schema"),
        ("runs", "0001_schema"),
        ("tasksets", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        CreateModels(
            [
                migrations.CreateModel(
                    name="Comparison",
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
                                related_name="comparisons",
                                to="runs.run",
                            ),
                        ),
                        (
                            "one",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="runs.weightversion",
                            ),
                        ),
                        (
                            "other",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
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
                        ("temperature", models.FloatField()),
                        ("max_tokens", models.PositiveIntegerField()),
                        (
                            "at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-pk"],
                    },
                ),
                migrations.CreateModel(
                    name="Chat",
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
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="chats",
                                to="runs.weightversion",
                            ),
                        ),
                        (
                            "policy",
                            models.ForeignKey(
                                help_text="The model itself, where no version of a run is asked.",
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="chats",
                                to="policies.policy",
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
                            "system",
                            models.TextField(
                                blank=True, help_text="System message; empty for none."
                            ),
                        ),
                        (
                            "comparison",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="chats",
                                to="rollouts.comparison",
                            ),
                        ),
                        (
                            "place",
                            models.PositiveSmallIntegerField(
                                db_default=0,
                                default=0,
                                help_text="Index of the prompt in the comparison.",
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
                        "ordering": ["-pk"],
                        "indexes": [
                            models.Index(
                                condition=models.Q(("comparison", None)),
                                fields=["weight_version", "by", "-id"],
                                name="chats_of_a_person",
                            )
                        ],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("policy__isnull", False), ("weight_version", None)),
                                    models.Q(("policy", None), ("weight_version__isnull", False)),
                                    _connector="OR",
                                ),
                                name="a_chat_has_a_version_or_a_model",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ChatTurn",
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
                            "chat",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="turns",
                                to="rollouts.chat",
                            ),
                        ),
                        ("number", models.PositiveSmallIntegerField(help_text="Index, from 0.")),
                        (
                            "prompt",
                            models.JSONField(
                                help_text="Messages between the previous turns and this reply."
                            ),
                        ),
                        ("temperature", models.FloatField()),
                        ("max_tokens", models.PositiveIntegerField()),
                        ("seed", models.PositiveIntegerField(help_text="Seed for sampling.")),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("waiting", "waiting for an engine"),
                                    ("loading", "loading weights"),
                                    ("writing", "writing"),
                                    ("done", "done"),
                                    ("stopped", "stopped"),
                                    ("failed", "failed"),
                                ],
                                default="waiting",
                                max_length=7,
                            ),
                        ),
                        ("reply", models.TextField(blank=True, help_text="The reply so far.")),
                        ("tokens", models.PositiveIntegerField(default=0)),
                        (
                            "stop_reason",
                            models.CharField(
                                blank=True,
                                help_text=(
                                    "stop: ended by the policy; length: truncated; abort: "
                                    "stopped by a person."
                                ),
                                max_length=10,
                            ),
                        ),
                        (
                            "reason",
                            models.CharField(
                                blank=True, help_text="Why the reply failed.", max_length=500
                            ),
                        ),
                        (
                            "is_replaced",
                            models.BooleanField(
                                db_default=False,
                                default=False,
                                help_text="Replaced by a retry; no longer part of the chat.",
                            ),
                        ),
                        ("stop_wanted", models.BooleanField(db_default=False, default=False)),
                        (
                            "worker",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to="runs.worker",
                            ),
                        ),
                        ("attempts", models.PositiveSmallIntegerField(db_default=0, default=0)),
                        (
                            "requested_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                        (
                            "begun_at",
                            models.DateTimeField(
                                help_text="When the first token was generated.", null=True
                            ),
                        ),
                        ("ended_at", models.DateTimeField(null=True)),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(
                                    ("state__in", ["waiting", "loading", "writing"])
                                ),
                                fields=["id"],
                                name="open_chat_turns",
                            )
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("is_replaced", False)),
                                fields=("chat", "number"),
                                name="one_chat_turn_per_number",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("state", "failed"), _negated=True),
                                    models.Q(("reason", ""), _negated=True),
                                    _connector="OR",
                                ),
                                name="a_failed_turn_says_why",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="TaskRequest",
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
                                related_name="task_requests",
                                to="runs.run",
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
                        (
                            "by",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                        ("draw_index", models.PositiveIntegerField(null=True)),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("draw_index", None)),
                                fields=("run", "task"),
                                name="a_task_waits_once",
                            ),
                            models.UniqueConstraint(
                                fields=("run", "draw_index"), name="a_draw_serves_one_task_request"
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="TaskRecord",
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
                                related_name="task_records",
                                to="runs.run",
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
                        (
                            "attempts",
                            models.PositiveIntegerField(help_text="Rollouts with a reward."),
                        ),
                        ("successes", models.FloatField(help_text="The sum of their successes.")),
                        (
                            "rate",
                            models.GeneratedField(
                                db_persist=True,
                                expression=django.db.models.expressions.CombinedExpression(
                                    models.F("successes"), "/", models.F("attempts")
                                ),
                                output_field=models.FloatField(),
                            ),
                        ),
                        (
                            "alpha",
                            models.FloatField(
                                help_text=(
                                    "Parameter α of the Beta distribution that "
                                    "estimates the success rate; older results are "
                                    "discounted."
                                )
                            ),
                        ),
                        ("beta", models.FloatField()),
                        (
                            "last_draw",
                            models.PositiveIntegerField(
                                help_text=(
                                    "Newest draw whose group was judged; results are "
                                    "discounted from there."
                                )
                            ),
                        ),
                        (
                            "updated_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["run", "rate"], name="tasks_by_success"),
                            models.Index(fields=["run", "last_draw"], name="newest_results"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("run", "task"), name="one_record_per_task_of_a_run"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("attempts__gt", 0)),
                                name="a_recorded_task_was_tried",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="LeftOut",
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
                                related_name="left_out",
                                to="runs.run",
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
                        ("reason", models.CharField(max_length=200)),
                        (
                            "by",
                            models.ForeignKey(
                                help_text="User who excluded the task; NULL if the run did.",
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "operator",
                            models.CharField(
                                blank=True,
                                db_default="",
                                default="",
                                help_text=(
                                    "Operator of the pipeline that excluded the task; "
                                    "empty if none did."
                                ),
                                max_length=60,
                            ),
                        ),
                        (
                            "failures",
                            models.PositiveSmallIntegerField(
                                db_default=0,
                                default=0,
                                help_text=(
                                    "Number of failed groups for which the task was "
                                    "excluded; 0 for another reason."
                                ),
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
                                fields=("run", "task"), name="a_task_is_left_out_once"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Group",
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
                            "run",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="groups",
                                to="runs.run",
                            ),
                        ),
                        (
                            "draw_index",
                            models.PositiveIntegerField(
                                help_text=(
                                    "Index of the group in the run, which determines the task. "
                                    "NULL for expert answers."
                                ),
                                null=True,
                            ),
                        ),
                        (
                            "task",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, to="tasksets.task"
                            ),
                        ),
                        ("size", models.PositiveIntegerField()),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("sampling", "Sampling"),
                                    ("scoring", "Scoring"),
                                    ("waiting", "waiting for people"),
                                    ("judged", "Judged"),
                                    ("admitted", "Admitted"),
                                    ("measured", "evaluated"),
                                    ("dropped", "Dropped"),
                                ],
                                default="sampling",
                                max_length=8,
                            ),
                        ),
                        (
                            "reason",
                            models.CharField(
                                blank=True, help_text="Why the group was dropped.", max_length=200
                            ),
                        ),
                        (
                            "opened_version",
                            models.PositiveIntegerField(
                                help_text="Published weight version when the group was opened."
                            ),
                        ),
                        (
                            "attempts",
                            models.PositiveSmallIntegerField(
                                default=0, help_text="Failed attempts since the last progress."
                            ),
                        ),
                        (
                            "deadline_at",
                            models.DateTimeField(
                                help_text="Deadline for people's ratings.", null=True
                            ),
                        ),
                        (
                            "awaits_rewards",
                            models.BooleanField(
                                default=False,
                                help_text=(
                                    "Rewards of the environment are still missing; the group "
                                    "is scored after they arrive."
                                ),
                            ),
                        ),
                        (
                            "answer_only",
                            models.BooleanField(
                                default=False,
                                help_text=(
                                    "Opened beyond the staleness limit: answered, but never "
                                    "used in training."
                                ),
                            ),
                        ),
                        ("opened_at", models.DateTimeField(auto_now_add=True)),
                        ("sampled_at", models.DateTimeField(null=True)),
                        ("judged_at", models.DateTimeField(null=True)),
                        (
                            "closed_at",
                            models.DateTimeField(
                                help_text="When the group was admitted, measured or dropped.",
                                null=True,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(
                                    ("state__in", ["sampling", "scoring", "waiting", "judged"])
                                ),
                                fields=["state", "id"],
                                name="open_groups",
                            ),
                            models.Index(fields=["run", "state"], name="groups_of_a_run"),
                            models.Index(
                                condition=models.Q(("state", "dropped")),
                                fields=["run", "-id"],
                                name="dropped_groups",
                            ),
                            models.Index(
                                condition=models.Q(("awaits_rewards", True), ("state", "scoring")),
                                fields=["run"],
                                name="groups_awaiting_rewards",
                            ),
                            models.Index(
                                condition=models.Q(("state", "dropped")),
                                fields=["run", "closed_at"],
                                name="dropped_by_the_clock",
                            ),
                            models.Index(
                                condition=models.Q(("draw_index__isnull", False)),
                                fields=["run", "task", "draw_index"],
                                name="attempts_at_a_task",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("run", "draw_index"), name="one_group_per_draw"
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("draw_index", None)),
                                fields=("run", "task"),
                                name="one_expert_group_per_task",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("draw_index__isnull", False), ("size", 0), _connector="OR"
                                ),
                                name="nobody_drew_what_experts_said",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("state", "dropped"), _negated=True),
                                    models.Q(("reason", ""), _negated=True),
                                    _connector="OR",
                                ),
                                name="a_dropped_group_says_why",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Rollout",
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
                                related_name="rollouts",
                                to="runs.run",
                            ),
                        ),
                        (
                            "group",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="rollouts",
                                to="rollouts.group",
                            ),
                        ),
                        ("sample_index", models.PositiveSmallIntegerField()),
                        (
                            "origin",
                            models.CharField(
                                choices=[
                                    ("policy", "Policy"),
                                    ("expert", "Expert"),
                                    ("synthetic", "Synthetic"),
                                ],
                                default="policy",
                                max_length=9,
                            ),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("sampling", "Sampling"),
                                    ("finished", "Finished"),
                                    ("failed", "Failed"),
                                ],
                                default="sampling",
                                max_length=8,
                            ),
                        ),
                        ("text", models.TextField(blank=True)),
                        (
                            "stop_reason",
                            models.CharField(
                                blank=True,
                                help_text="stop, length, abort, an intervention, or the error.",
                                max_length=200,
                            ),
                        ),
                        (
                            "turns",
                            models.JSONField(
                                default=list,
                                help_text=(
                                    "Turns of the dialogue (apps.rollouts.turns); empty for a "
                                    "single turn of the policy."
                                ),
                            ),
                        ),
                        ("prompt_tokens", models.PositiveIntegerField(default=0)),
                        ("completion_tokens", models.PositiveIntegerField(default=0)),
                        (
                            "first_version",
                            models.PositiveIntegerField(
                                help_text="Oldest weight version that sampled one of its tokens.",
                                null=True,
                            ),
                        ),
                        ("last_version", models.PositiveIntegerField(null=True)),
                        ("started_at", models.DateTimeField(auto_now_add=True)),
                        ("finished_at", models.DateTimeField(null=True)),
                        (
                            "arrays_released_at",
                            models.DateTimeField(
                                help_text="When the token arrays were deleted; the rest is kept.",
                                null=True,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["run", "-id"], name="newest_rollouts"),
                            models.Index(
                                condition=models.Q(("state", "sampling")),
                                fields=["group"],
                                name="rollouts_being_sampled",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("group", "origin", "sample_index"),
                                name="one_rollout_per_sample",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RolloutPayload",
                    fields=[
                        (
                            "rollout",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                primary_key=True,
                                related_name="payload",
                                serialize=False,
                                to="rollouts.rollout",
                            ),
                        ),
                        ("data", models.BinaryField()),
                    ],
                ),
                migrations.CreateModel(
                    name="FailedGroup",
                    fields=[
                        (
                            "group",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                primary_key=True,
                                related_name="failure",
                                serialize=False,
                                to="rollouts.group",
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="failed_groups",
                                to="runs.run",
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
                        ("is_forgiven", models.BooleanField(db_default=False, default=False)),
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
                                condition=models.Q(("is_forgiven", False)),
                                fields=["run", "task"],
                                name="failures_that_count",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="PartialRollout",
                    fields=[
                        (
                            "rollout",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                primary_key=True,
                                related_name="partial",
                                serialize=False,
                                to="rollouts.rollout",
                            ),
                        ),
                        (
                            "data",
                            models.BinaryField(
                                help_text=(
                                    "Token arrays of the rollout so far (apps.rollouts.payload)."
                                )
                            ),
                        ),
                        ("completion_tokens", models.PositiveIntegerField()),
                        (
                            "notes",
                            models.JSONField(
                                help_text=("Turns of the rollout, and the interventions of people.")
                            ),
                        ),
                        (
                            "slices",
                            models.PositiveIntegerField(help_text=("Number of slices so far.")),
                        ),
                        (
                            "left_fence",
                            models.BigIntegerField(
                                help_text=(
                                    "Fence of the group when its lease was released, so "
                                    "that the saved text is complete. NULL: an engine "
                                    "may have generated more."
                                ),
                                null=True,
                            ),
                        ),
                        (
                            "stored_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                    ],
                ),
            ]
        ),
        migrations.RunSQL(KEEP_UNCOMPRESSED, COMPRESS),
        migrations.RunSQL(INDEX_WORDS, "DROP INDEX rollouts_by_words"),
    ]
