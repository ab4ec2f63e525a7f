import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

from apps.accounts.create_models import CreateModels

# Count how many items a person holds while nobody else claims for the same person. A statement
# sees what was committed when it began; each query of a volatile function sees what was committed
# when that query began. So the count is taken after the lock, within the one statement that claims.
COUNT_IN_TURN = """
    CREATE FUNCTION feedback_in_hand(person bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
    BEGIN
        PERFORM pg_advisory_xact_lock(1751215716, (person % 2147483648)::int);  -- 'hand'
        RETURN (SELECT count(*) FROM feedback_slot
                WHERE rater_id = person AND state = 'held' AND lease_until > statement_timestamp());
    END $$"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_schema"),
        ("policies", "0001_schema"),
        ("rewards", "0001_schema"),
        ("rollouts", "0001_schema"),
        ("runs", "0001_schema"),
        ("tasksets", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        CreateModels(
            [
                migrations.CreateModel(
                    name="Item",
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
                                related_name="items",
                                to="runs.run",
                            ),
                        ),
                        (
                            "group",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="items",
                                to="rollouts.group",
                            ),
                        ),
                        ("form", models.CharField(max_length=20)),
                        (
                            "purpose",
                            models.CharField(
                                choices=[
                                    ("reward", "reward"),
                                    (
                                        "audit",
                                        "random audit of the rater model",
                                    ),
                                    ("repeat", "repeat, to measure agreement"),
                                    ("gold", "gold item"),
                                    ("attention", "attention check"),
                                    ("norming", "norming item"),
                                    ("rewrite", "rewrite"),
                                    ("check", "check of a suspicion"),
                                ],
                                default="reward",
                                max_length=9,
                            ),
                        ),
                        (
                            "members",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.BigIntegerField(),
                                help_text="IDs of the rollouts to rate.",
                                size=None,
                            ),
                        ),
                        (
                            "overlap",
                            models.PositiveSmallIntegerField(
                                default=1, help_text="Number of people who rate it."
                            ),
                        ),
                        (
                            "version",
                            models.PositiveIntegerField(
                                default=1,
                                help_text=(
                                    "Rises with each change of the item; answers to an older "
                                    "version are stale."
                                ),
                            ),
                        ),
                        (
                            "expected",
                            models.JSONField(help_text="The correct answer, if known.", null=True),
                        ),
                        (
                            "explanation",
                            models.TextField(
                                blank=True,
                                help_text="Why the answer is correct; shown to the rater afterwards.",
                            ),
                        ),
                        (
                            "repeats",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="repeated_by",
                                to="feedback.item",
                            ),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[("open", "Open"), ("done", "Done"), ("closed", "Closed")],
                                default="open",
                                max_length=6,
                            ),
                        ),
                        (
                            "opened_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["group"], name="items_of_a_group"),
                            models.Index(
                                condition=models.Q(
                                    ("purpose__in", ["gold", "attention", "norming"]),
                                    ("state", "open"),
                                ),
                                fields=["run", "id"],
                                name="known_answers",
                            ),
                        ],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("members__len__gte", 1)),
                                name="an_item_is_about_something",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(
                                        ("purpose__in", ["gold", "attention", "norming"]),
                                        _negated=True,
                                    ),
                                    ("expected__isnull", False),
                                    _connector="OR",
                                ),
                                name="gold_is_known",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Slot",
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
                        (
                            "item",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="slots",
                                to="feedback.item",
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="slots",
                                to="runs.run",
                            ),
                        ),
                        (
                            "group",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="slots",
                                to="rollouts.group",
                            ),
                        ),
                        ("place", models.PositiveSmallIntegerField(default=0)),
                        (
                            "is_required",
                            models.BooleanField(
                                default=True, help_text="The group waits for this answer."
                            ),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("open", "Open"),
                                    ("held", "Held"),
                                    ("done", "Done"),
                                    ("closed", "Closed"),
                                ],
                                default="open",
                                max_length=6,
                            ),
                        ),
                        (
                            "due_at",
                            models.DateTimeField(
                                help_text=(
                                    "Slots with the earliest time are served first: the "
                                    "group's deadline, shifted by priority."
                                )
                            ),
                        ),
                        (
                            "rater",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="slots",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("held_at", models.DateTimeField(null=True)),
                        (
                            "lease_s",
                            models.FloatField(
                                help_text=(
                                    "Seconds of a renewed lease; NULL renews it by its present length."
                                ),
                                null=True,
                            ),
                        ),
                        (
                            "shown",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.BigIntegerField(),
                                help_text="IDs of the rollouts in the order shown to this rater.",
                                null=True,
                                size=None,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("state", "open")),
                                fields=["run", "due_at", "id"],
                                name="open_slots",
                            ),
                            models.Index(
                                condition=models.Q(("state", "held")),
                                fields=["rater"],
                                name="held_slots",
                            ),
                            models.Index(
                                condition=models.Q(("state", "held")),
                                fields=["lease_until"],
                                name="slots_running_out",
                            ),
                            models.Index(
                                condition=models.Q(("state__in", ["open", "held"])),
                                fields=["group"],
                                name="slots_in_hand",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("item", "place"), name="one_slot_per_place"
                            ),
                            models.UniqueConstraint(
                                fields=("item", "rater"), name="one_slot_per_rater"
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Skip",
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
                            "item",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="skips",
                                to="feedback.item",
                            ),
                        ),
                        (
                            "rater",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="skips",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("reason", models.CharField(blank=True, max_length=300)),
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
                                fields=("item", "rater"), name="one_skip_per_rater"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Rating",
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
                            "item",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="ratings",
                                to="feedback.item",
                            ),
                        ),
                        (
                            "rollout",
                            models.ForeignKey(
                                help_text="NULL if the rating compares several rollouts.",
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="ratings",
                                to="rollouts.rollout",
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="ratings",
                                to="runs.run",
                            ),
                        ),
                        (
                            "rater",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="ratings",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("form", models.CharField(max_length=20)),
                        (
                            "answer",
                            models.JSONField(
                                help_text=(
                                    "The answer in the format of its rating form (apps.feedback.forms)."
                                )
                            ),
                        ),
                        ("critique", models.TextField(blank=True)),
                        (
                            "shown",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.BigIntegerField(),
                                default=list,
                                help_text="IDs of the rollouts in the order shown.",
                                size=None,
                            ),
                        ),
                        (
                            "client_uuid",
                            models.UUIDField(
                                help_text="Generated by the client; repeating it has no further effect."
                            ),
                        ),
                        (
                            "replaces",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="replaced_by",
                                to="feedback.rating",
                            ),
                        ),
                        (
                            "is_current",
                            models.BooleanField(
                                default=True,
                                help_text="False after the same person has given a newer one.",
                            ),
                        ),
                        (
                            "is_withdrawn",
                            models.BooleanField(
                                default=False,
                                help_text="This row withdraws the rating that it replaces.",
                            ),
                        ),
                        (
                            "is_late",
                            models.BooleanField(
                                default=False,
                                help_text=(
                                    "The group was already closed: stored and shown, but not "
                                    "used in training."
                                ),
                            ),
                        ),
                        (
                            "seconds",
                            models.FloatField(
                                help_text="Seconds in a visible tab until the decision.", null=True
                            ),
                        ),
                        (
                            "first_key_ms",
                            models.PositiveIntegerField(
                                help_text="Milliseconds until the first key press or touch.",
                                null=True,
                            ),
                        ),
                        (
                            "changes",
                            models.PositiveIntegerField(
                                default=0,
                                help_text="Number of changes to the answer before it was sent.",
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
                        "indexes": [
                            models.Index(fields=["run", "-id"], name="ratings_of_a_run"),
                            models.Index(fields=["rater", "-id"], name="ratings_of_a_person"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("rater", "client_uuid"), name="one_rating_per_client_uuid"
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("is_current", True)),
                                fields=("item", "rater"),
                                name="one_current_rating_per_item",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("item__isnull", False),
                                    ("rollout__isnull", False),
                                    _connector="OR",
                                ),
                                name="a_rating_is_about_something",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("seconds", None),
                                    models.Q(("seconds__gte", 0), ("seconds__lt", float("inf"))),
                                    _connector="OR",
                                ),
                                name="time_passes",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RatingReward",
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
                            "rating",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="rating_rewards",
                                to="feedback.rating",
                            ),
                        ),
                        (
                            "reward",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="rating_reward",
                                to="rewards.reward",
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="Adjudication",
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
                            "item",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="adjudication",
                                to="feedback.item",
                            ),
                        ),
                        (
                            "rating",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="adjudication",
                                to="feedback.rating",
                            ),
                        ),
                        (
                            "at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="Calibration",
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
                                related_name="calibrations",
                                to="runs.run",
                            ),
                        ),
                        ("scorer", models.CharField(max_length=60)),
                        ("domain", models.CharField(max_length=60, null=True)),
                        (
                            "metrics",
                            models.JSONField(help_text="apps.statistics.calibration.Calibration"),
                        ),
                        (
                            "widest",
                            models.JSONField(
                                default=list,
                                help_text=(
                                    "Largest disagreements: [rollout, scorer's value, people's "
                                    "value], both values from 0 to 1."
                                ),
                            ),
                        ),
                        (
                            "last_rating",
                            models.BigIntegerField(
                                help_text="ID of the run's newest rating at that time."
                            ),
                        ),
                        (
                            "made_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                        ("alarm", models.CharField(blank=True, max_length=500)),
                        ("alarmed_at", models.DateTimeField(null=True)),
                        (
                            "has_paused",
                            models.BooleanField(
                                default=False, help_text="The run was paused because of this alarm."
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("run", "scorer", "domain"),
                                name="one_calibration_per_scorer_and_domain",
                                nulls_distinct=False,
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Intervention",
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
                            "rollout",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="interventions",
                                to="rollouts.rollout",
                            ),
                        ),
                        (
                            "by",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="interventions",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("stop", "stopped the reply"),
                                    ("edit", "edited the reply"),
                                    ("seat", "typed the policy's turn"),
                                    ("hold", "held the reply while typing"),
                                    ("free", "let the reply continue"),
                                ],
                                max_length=4,
                            ),
                        ),
                        (
                            "turn",
                            models.PositiveSmallIntegerField(
                                help_text=(
                                    "Index of the turn in the dialogue, from 0, user turns "
                                    "included; NULL for the turn in progress."
                                ),
                                null=True,
                            ),
                        ),
                        (
                            "text",
                            models.TextField(
                                blank=True,
                                help_text="The edited text so far, or the turn that the person typed.",
                            ),
                        ),
                        (
                            "before",
                            models.TextField(
                                blank=True, help_text="The policy's text before the change."
                            ),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("pending", "Pending"),
                                    ("done", "Done"),
                                    ("refused", "Refused"),
                                ],
                                default="pending",
                                max_length=7,
                            ),
                        ),
                        (
                            "reason",
                            models.CharField(
                                blank=True, help_text="Why the request was refused.", max_length=300
                            ),
                        ),
                        (
                            "client_uuid",
                            models.UUIDField(
                                help_text="Generated by the client; repeating it has no further effect."
                            ),
                        ),
                        (
                            "at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                        ("done_at", models.DateTimeField(null=True)),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("state", "pending")),
                                fields=["rollout"],
                                name="interventions_pending",
                            )
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("by", "client_uuid"),
                                name="one_intervention_per_client_uuid",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("state", "refused"), _negated=True),
                                    models.Q(("reason", ""), _negated=True),
                                    _connector="OR",
                                ),
                                name="a_refused_act_says_why",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Demonstration",
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
                                related_name="%(class)ss",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "task",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="%(class)ss",
                                to="tasksets.task",
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                help_text="The run whose rollouts were rated.",
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="%(class)ss",
                                to="runs.run",
                            ),
                        ),
                        ("prompt", models.JSONField(help_text="Chat messages: [{role, content}].")),
                        (
                            "author",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="%(class)ss",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "source",
                            models.CharField(
                                help_text="Name of the imported file, or of the collection from a run.",
                                max_length=200,
                            ),
                        ),
                        (
                            "key",
                            models.CharField(
                                help_text="SHA-256 of the prompt and the texts.", max_length=64
                            ),
                        ),
                        (
                            "at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                        ("answer", models.TextField()),
                    ],
                    options={
                        "abstract": False,
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("project", "author", "key"),
                                name="one_demonstration_per_author_and_key",
                                nulls_distinct=False,
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Preference",
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
                                related_name="%(class)ss",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "task",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="%(class)ss",
                                to="tasksets.task",
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                help_text="The run whose rollouts were rated.",
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="%(class)ss",
                                to="runs.run",
                            ),
                        ),
                        ("prompt", models.JSONField(help_text="Chat messages: [{role, content}].")),
                        (
                            "author",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="%(class)ss",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "source",
                            models.CharField(
                                help_text="Name of the imported file, or of the collection from a run.",
                                max_length=200,
                            ),
                        ),
                        (
                            "key",
                            models.CharField(
                                help_text="SHA-256 of the prompt and the texts.", max_length=64
                            ),
                        ),
                        (
                            "at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                        ("chosen", models.TextField()),
                        ("rejected", models.TextField()),
                        ("margin", models.FloatField(null=True)),
                        (
                            "chosen_rollout",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="rollouts.rollout",
                            ),
                        ),
                        (
                            "rejected_rollout",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="rollouts.rollout",
                            ),
                        ),
                    ],
                    options={
                        "abstract": False,
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("project", "author", "key"),
                                name="one_preference_per_author_and_key",
                                nulls_distinct=False,
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("margin", None),
                                    models.Q(("margin__gte", 0), ("margin__lt", float("inf"))),
                                    _connector="OR",
                                ),
                                name="margins_are_finite",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("chosen", models.F("rejected")), _negated=True),
                                name="a_preference_is_between_two",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Thumb",
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
                                related_name="%(class)ss",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "task",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="%(class)ss",
                                to="tasksets.task",
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                help_text="The run whose rollouts were rated.",
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="%(class)ss",
                                to="runs.run",
                            ),
                        ),
                        ("prompt", models.JSONField(help_text="Chat messages: [{role, content}].")),
                        (
                            "author",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="%(class)ss",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "source",
                            models.CharField(
                                help_text="Name of the imported file, or of the collection from a run.",
                                max_length=200,
                            ),
                        ),
                        (
                            "key",
                            models.CharField(
                                help_text="SHA-256 of the prompt and the texts.", max_length=64
                            ),
                        ),
                        (
                            "at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                        ("completion", models.TextField()),
                        ("is_up", models.BooleanField()),
                    ],
                    options={
                        "abstract": False,
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("project", "author", "key"),
                                name="one_thumb_per_author_and_key",
                                nulls_distinct=False,
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ExpertAnswer",
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
                            "demonstration",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="expert_answers",
                                to="feedback.demonstration",
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="expert_answers",
                                to="runs.run",
                            ),
                        ),
                        (
                            "rollout",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="expert_answer",
                                to="rollouts.rollout",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("run", "demonstration"), name="one_expert_answer_per_run"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RaterModel",
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
                                related_name="rater_models",
                                to="runs.run",
                            ),
                        ),
                        ("number", models.PositiveIntegerField()),
                        ("kind", models.CharField(max_length=20)),
                        (
                            "decisions",
                            models.PositiveIntegerField(
                                help_text="Number of decisions in the training data."
                            ),
                        ),
                        (
                            "last_rating",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="feedback.rating",
                            ),
                        ),
                        ("coefficients", models.JSONField(default=dict)),
                        (
                            "metrics",
                            models.JSONField(
                                default=dict,
                                help_text="Accuracy on decisions that were not in the training data.",
                            ),
                        ),
                        (
                            "fitted_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("run", "number"), name="one_rater_model_per_number"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Prediction",
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
                            "rating",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="prediction",
                                to="feedback.rating",
                            ),
                        ),
                        (
                            "rater_model",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="predictions",
                                to="feedback.ratermodel",
                            ),
                        ),
                        ("mean", models.FloatField()),
                        ("deviation", models.FloatField()),
                        (
                            "is_audit",
                            models.BooleanField(
                                default=False,
                                help_text=(
                                    "The row was sampled at random, so it gives an unbiased "
                                    "estimate of accuracy."
                                ),
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="RolloutBaseNll",
                    fields=[
                        (
                            "rollout",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                primary_key=True,
                                related_name="surprise",
                                serialize=False,
                                to="rollouts.rollout",
                            ),
                        ),
                        ("mean", models.FloatField()),
                        ("worst", models.FloatField()),
                        (
                            "rare",
                            models.PositiveIntegerField(
                                help_text="Tokens with a negative logprob above 4 nats."
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="Suspicion",
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
                                related_name="suspicions",
                                to="runs.run",
                            ),
                        ),
                        (
                            "kind",
                            models.CharField(
                                help_text="A key of apps.rewards.hacking.DETECTORS.", max_length=20
                            ),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("open", "Open"),
                                    ("acted", "acted on"),
                                    ("dismissed", "Dismissed"),
                                ],
                                default="open",
                                max_length=9,
                            ),
                        ),
                        (
                            "words",
                            models.TextField(
                                help_text="What was observed and why it is suspicious."
                            ),
                        ),
                        ("metrics", models.JSONField(default=dict)),
                        (
                            "series",
                            models.JSONField(
                                default=dict, help_text="Mean per step, by name: [[step, mean], …]."
                            ),
                        ),
                        (
                            "first_step",
                            models.PositiveIntegerField(
                                help_text="Step of the run at the first observation."
                            ),
                        ),
                        ("last_step", models.PositiveIntegerField()),
                        (
                            "evidence",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.BigIntegerField(),
                                default=list,
                                help_text="IDs of the newest rollouts that show it.",
                                size=None,
                            ),
                        ),
                        (
                            "tasks",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.BigIntegerField(),
                                default=list,
                                help_text="IDs of the tasks concerned, if it concerns tasks.",
                                size=None,
                            ),
                        ),
                        (
                            "sample",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.BigIntegerField(),
                                default=list,
                                help_text=(
                                    "IDs of rollouts sampled by reward and step for people to check."
                                ),
                                size=None,
                            ),
                        ),
                        (
                            "first_seen_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                        (
                            "last_seen_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                        (
                            "closed_step",
                            models.PositiveIntegerField(
                                help_text=(
                                    "Replies sampled before this step do not raise the suspicion again."
                                ),
                                null=True,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["run", "kind", "-id"], name="suspicions_of_a_run")
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("state", "open")),
                                fields=("run", "kind"),
                                name="one_open_suspicion_per_kind",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="SuspicionAction",
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
                            "suspicion",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="actions",
                                to="feedback.suspicion",
                            ),
                        ),
                        (
                            "verb",
                            models.CharField(
                                choices=[
                                    ("asked", "asked people"),
                                    ("dropped", "left out of training"),
                                    ("reweighted", "changed weights"),
                                    ("rescored", "scored again"),
                                    ("dismissed", "Dismissed"),
                                ],
                                max_length=10,
                            ),
                        ),
                        ("reason", models.CharField(blank=True, max_length=500)),
                        ("details", models.JSONField(default=dict)),
                        (
                            "by",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "step",
                            models.PositiveIntegerField(help_text="Step of the run at that time."),
                        ),
                        (
                            "at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["pk"],
                    },
                ),
                migrations.CreateModel(
                    name="SuspicionItem",
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
                            "suspicion",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="items",
                                to="feedback.suspicion",
                            ),
                        ),
                        (
                            "item",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="suspicion_item",
                                to="feedback.item",
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="Guess",
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
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="guesses",
                                to="tasksets.task",
                            ),
                        ),
                        (
                            "policy",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="guesses",
                                to="policies.policy",
                            ),
                        ),
                        ("scorer", models.CharField(max_length=60)),
                        ("tries", models.PositiveSmallIntegerField()),
                        ("right", models.PositiveSmallIntegerField()),
                        (
                            "example",
                            models.CharField(
                                blank=True,
                                help_text="A correct guess, or the first one if none was correct.",
                                max_length=300,
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
                                fields=("task", "policy"), name="one_guess_per_task_and_policy"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("right__lte", models.F("tries"))),
                                name="no_more_right_than_tried",
                            ),
                        ],
                    },
                ),
            ]
        ),
        migrations.RunSQL(COUNT_IN_TURN, "DROP FUNCTION feedback_in_hand(bigint)"),
    ]
