import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

from apps.accounts.create_models import CreateModels


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_schema"),
        ("rollouts", "0001_schema"),
        ("runs", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        CreateModels(
            [
                migrations.CreateModel(
                    name="JudgeReply",
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
                                help_text="SHA-256 of service, model, messages, settings and vote.",
                                max_length=64,
                                unique=True,
                            ),
                        ),
                        ("text", models.TextField()),
                        ("tokens_in", models.PositiveIntegerField(default=0)),
                        ("tokens_out", models.PositiveIntegerField(default=0)),
                        ("seconds", models.FloatField()),
                        ("at", models.DateTimeField(auto_now_add=True)),
                    ],
                ),
                migrations.CreateModel(
                    name="Reward",
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
                        ("scorer", models.CharField(max_length=60)),
                        ("value", models.FloatField(null=True)),
                        ("reason", models.CharField(blank=True, max_length=300)),
                        (
                            "version",
                            models.PositiveIntegerField(
                                db_default=1,
                                help_text=(
                                    "Version of the scorer. It rises when the same text may "
                                    "get a different value."
                                ),
                            ),
                        ),
                        (
                            "options",
                            models.JSONField(
                                db_default={}, help_text="Options of the scorer in the run."
                            ),
                        ),
                        (
                            "seconds",
                            models.FloatField(
                                help_text="Duration of the judgement, if measured.", null=True
                            ),
                        ),
                        ("details", models.JSONField(default=dict)),
                        ("at", models.DateTimeField(auto_now_add=True)),
                        (
                            "rollout",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="rewards",
                                to="rollouts.rollout",
                            ),
                        ),
                        (
                            "source",
                            models.CharField(
                                choices=[
                                    ("rule", "Rule"),
                                    ("model", "Model"),
                                    ("environment", "Environment"),
                                    ("human", "Human"),
                                ],
                                max_length=11,
                            ),
                        ),
                        (
                            "uncertainty",
                            models.FloatField(
                                help_text="Standard error of the value, if known.", null=True
                            ),
                        ),
                        (
                            "by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="rewards_given",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "is_current",
                            models.BooleanField(
                                default=True,
                                help_text="False after the same person has given a newer one.",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("value", None),
                                    models.Q(
                                        ("value__gt", float("-inf")), ("value__lt", float("inf"))
                                    ),
                                    _connector="OR",
                                ),
                                name="rewards_are_finite",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("value", None), _negated=True),
                                    models.Q(("reason", ""), _negated=True),
                                    _connector="OR",
                                ),
                                name="a_missing_reward_says_why",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("uncertainty", None),
                                    models.Q(
                                        ("uncertainty__gte", 0), ("uncertainty__lt", float("inf"))
                                    ),
                                    _connector="OR",
                                ),
                                name="uncertainties_are_finite",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("by", None)),
                                fields=("rollout", "scorer"),
                                name="one_reward_per_machine",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("is_current", True)),
                                fields=("rollout", "scorer", "by"),
                                name="one_current_reward_per_person",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Rescoring",
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
                                related_name="rescorings",
                                to="runs.run",
                            ),
                        ),
                        (
                            "by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="rescorings",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "rewards",
                            models.JSONField(
                                help_text="Scorers, in the format of a run's `rewards`."
                            ),
                        ),
                        (
                            "compared_with",
                            models.JSONField(help_text="`rewards` of the run at that time."),
                        ),
                        (
                            "chosen",
                            models.JSONField(
                                default=dict,
                                help_text=(
                                    "Filter that selects the rollouts (apps.rewards.rescoring.choosing)."
                                ),
                            ),
                        ),
                        (
                            "groups",
                            models.PositiveIntegerField(help_text="Number of groups to score."),
                        ),
                        (
                            "rollouts",
                            models.PositiveIntegerField(
                                help_text="Number of rollouts in those groups."
                            ),
                        ),
                        (
                            "done",
                            models.PositiveIntegerField(
                                default=0, help_text="Number of groups scored."
                            ),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("waiting", "waiting"),
                                    ("running", "running"),
                                    ("done", "done"),
                                    ("stopped", "stopped"),
                                    ("failed", "failed"),
                                ],
                                default="waiting",
                                max_length=7,
                            ),
                        ),
                        (
                            "reason",
                            models.CharField(
                                blank=True,
                                help_text="Why rescoring failed, or who stopped it.",
                                max_length=300,
                            ),
                        ),
                        ("created_at", models.DateTimeField(auto_now_add=True)),
                        ("started_at", models.DateTimeField(null=True)),
                        ("ended_at", models.DateTimeField(null=True)),
                    ],
                    options={
                        "ordering": ["-pk"],
                        "indexes": [
                            models.Index(fields=["run", "-id"], name="rescorings_of_a_run"),
                            models.Index(
                                condition=models.Q(("state__in", ["waiting", "running"])),
                                fields=["id"],
                                name="open_rescorings",
                            ),
                        ],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("done__lte", models.F("groups"))),
                                name="no_more_rescored_than_chosen",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("state", "failed"), _negated=True),
                                    models.Q(("reason", ""), _negated=True),
                                    _connector="OR",
                                ),
                                name="a_failed_rescoring_says_why",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RescoredGroup",
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
                            "rescoring",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="items",
                                to="rewards.rescoring",
                            ),
                        ),
                        (
                            "group",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="rescored",
                                to="rollouts.group",
                            ),
                        ),
                        (
                            "attempts",
                            models.PositiveSmallIntegerField(
                                default=0, help_text="Number of attempts to score the group."
                            ),
                        ),
                        ("done_at", models.DateTimeField(null=True)),
                        (
                            "other_best",
                            models.BooleanField(
                                default=False,
                                help_text="None of the group's best rollouts was among its best before.",
                            ),
                        ),
                        (
                            "signal_before",
                            models.BooleanField(
                                default=False,
                                help_text=(
                                    "The group's machine rewards differed, so it had a learning signal."
                                ),
                            ),
                        ),
                        ("signal_after", models.BooleanField(default=False)),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("done_at", None)),
                                fields=["rescoring", "id"],
                                name="groups_to_rescore",
                            )
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("rescoring", "group"), name="a_group_is_rescored_once"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RescoredReward",
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
                        ("scorer", models.CharField(max_length=60)),
                        ("value", models.FloatField(null=True)),
                        ("reason", models.CharField(blank=True, max_length=300)),
                        (
                            "version",
                            models.PositiveIntegerField(
                                db_default=1,
                                help_text=(
                                    "Version of the scorer. It rises when the same text may "
                                    "get a different value."
                                ),
                            ),
                        ),
                        (
                            "options",
                            models.JSONField(
                                db_default={}, help_text="Options of the scorer in the run."
                            ),
                        ),
                        (
                            "seconds",
                            models.FloatField(
                                help_text="Duration of the judgement, if measured.", null=True
                            ),
                        ),
                        ("details", models.JSONField(default=dict)),
                        ("at", models.DateTimeField(auto_now_add=True)),
                        (
                            "rescoring",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="rewards_given",
                                to="rewards.rescoring",
                            ),
                        ),
                        (
                            "rollout",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="rescored_rewards",
                                to="rollouts.rollout",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("value", None),
                                    models.Q(
                                        ("value__gt", float("-inf")), ("value__lt", float("inf"))
                                    ),
                                    _connector="OR",
                                ),
                                name="rescored_rewards_are_finite",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("value", None), _negated=True),
                                    models.Q(("reason", ""), _negated=True),
                                    _connector="OR",
                                ),
                                name="a_missing_rescored_reward_says_why",
                            ),
                            models.UniqueConstraint(
                                fields=("rescoring", "rollout", "scorer"),
                                name="one_rescored_reward_per_scorer",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Rescored",
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
                            "rescoring",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="rescored",
                                to="rewards.rescoring",
                            ),
                        ),
                        (
                            "rollout",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="rescored",
                                to="rollouts.rollout",
                            ),
                        ),
                        ("before", models.FloatField(null=True)),
                        ("after", models.FloatField(null=True)),
                        ("counted_before", models.FloatField(null=True)),
                        ("counted_after", models.FloatField(null=True)),
                        (
                            "fate",
                            models.CharField(
                                choices=[
                                    ("same", "the same"),
                                    ("higher", "higher"),
                                    ("lower", "lower"),
                                    ("gained", "reward gained"),
                                    ("lost", "reward lost"),
                                    ("none", "no reward before or after"),
                                ],
                                max_length=6,
                            ),
                        ),
                        (
                            "size",
                            models.FloatField(
                                default=0, help_text="|after − before|; 0 if either is missing."
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                fields=["rescoring", "-size", "-id"], name="largest_differences"
                            ),
                            models.Index(
                                fields=["rescoring", "fate", "-size", "-id"],
                                name="largest_of_a_fate",
                            ),
                        ],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("before", None),
                                    models.Q(
                                        ("before__gt", float("-inf")), ("before__lt", float("inf"))
                                    ),
                                    _connector="OR",
                                ),
                                name="rescored_befores_are_finite",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("after", None),
                                    models.Q(
                                        ("after__gt", float("-inf")), ("after__lt", float("inf"))
                                    ),
                                    _connector="OR",
                                ),
                                name="rescored_afters_are_finite",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("size__gte", 0),
                                    models.Q(
                                        ("size", None),
                                        models.Q(
                                            ("size__gt", float("-inf")), ("size__lt", float("inf"))
                                        ),
                                        _connector="OR",
                                    ),
                                ),
                                name="rescored_sizes_are_finite",
                            ),
                            models.UniqueConstraint(
                                fields=("rescoring", "rollout"), name="a_rollout_is_rescored_once"
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RegressionCheck",
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
                                    ("running", "running"),
                                    ("done", "done"),
                                    ("failed", "failed"),
                                ],
                                default="waiting",
                                max_length=7,
                            ),
                        ),
                        (
                            "reason",
                            models.CharField(
                                blank=True, help_text="Why the job failed.", max_length=300
                            ),
                        ),
                        (
                            "cases",
                            models.PositiveIntegerField(help_text="Number of cases at the start."),
                        ),
                        (
                            "done",
                            models.PositiveIntegerField(
                                default=0, help_text="Number of cases scored so far."
                            ),
                        ),
                        (
                            "differ",
                            models.PositiveIntegerField(
                                default=0,
                                help_text="Number of scored cases that differ from the expected reward.",
                            ),
                        ),
                        (
                            "by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="%(class)ss",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="%(class)ss",
                                to="accounts.project",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-pk"],
                    },
                ),
                migrations.CreateModel(
                    name="RegressionCase",
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
                        ("scorer", models.CharField(max_length=60)),
                        ("options", models.JSONField(default=dict)),
                        (
                            "task",
                            models.JSONField(
                                help_text="The task as scorers receive it: prompt, answer, domain, meta."
                            ),
                        ),
                        (
                            "reply",
                            models.JSONField(
                                help_text=(
                                    "The rollout as scorers receive it, with the fields of RolloutView."
                                )
                            ),
                        ),
                        (
                            "form",
                            models.JSONField(
                                default=dict, help_text="The test bench's fields as entered."
                            ),
                        ),
                        (
                            "digest",
                            models.CharField(
                                help_text="SHA-256 of scorer, options, task and reply.",
                                max_length=64,
                            ),
                        ),
                        (
                            "expected",
                            models.FloatField(
                                help_text="The correct reward; NULL if the scorer must give none.",
                                null=True,
                            ),
                        ),
                        ("note", models.CharField(blank=True, max_length=300)),
                        ("created_at", models.DateTimeField(auto_now_add=True)),
                        (
                            "value",
                            models.FloatField(help_text="Reward in the last check.", null=True),
                        ),
                        ("reason", models.CharField(blank=True, max_length=300)),
                        ("details", models.JSONField(default=dict)),
                        (
                            "version",
                            models.PositiveIntegerField(
                                help_text="Version of the scorer in the last check.", null=True
                            ),
                        ),
                        ("seconds", models.FloatField(null=True)),
                        (
                            "checked_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                        (
                            "holds",
                            models.BooleanField(
                                help_text="The last check gave the expected reward."
                            ),
                        ),
                        (
                            "by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="regression_cases",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="regression_cases",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "checked_in",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="checked_cases",
                                to="rewards.regressioncheck",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-pk"],
                    },
                ),
                migrations.CreateModel(
                    name="Trial",
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
                                    ("running", "running"),
                                    ("done", "done"),
                                    ("failed", "failed"),
                                ],
                                default="waiting",
                                max_length=7,
                            ),
                        ),
                        (
                            "reason",
                            models.CharField(
                                blank=True, help_text="Why the job failed.", max_length=300
                            ),
                        ),
                        ("scorer", models.CharField(max_length=60)),
                        ("options", models.JSONField(default=dict)),
                        (
                            "task",
                            models.JSONField(
                                help_text="The task as scorers receive it: prompt, answer, domain, meta."
                            ),
                        ),
                        ("replies", models.JSONField()),
                        (
                            "verdicts",
                            models.JSONField(
                                default=list, help_text="Results for the first replies, in order."
                            ),
                        ),
                        (
                            "form",
                            models.JSONField(
                                default=dict, help_text="The form's fields as entered."
                            ),
                        ),
                        (
                            "by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="%(class)ss",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="%(class)ss",
                                to="accounts.project",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-pk"],
                    },
                ),
            ]
        ),
        migrations.AddIndex(
            model_name="regressioncheck",
            index=models.Index(fields=["project", "-id"], name="checks_of_a_project"),
        ),
        migrations.AddConstraint(
            model_name="regressioncheck",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "failed"), _negated=True),
                    models.Q(("reason", ""), _negated=True),
                    _connector="OR",
                ),
                name="a_failed_check_says_why",
            ),
        ),
        migrations.AddConstraint(
            model_name="regressioncheck",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state__in", ["waiting", "running"])),
                fields=("project",),
                name="one_open_check_per_project",
            ),
        ),
        migrations.AddConstraint(
            model_name="regressioncase",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("expected", None),
                    models.Q(("expected__gt", float("-inf")), ("expected__lt", float("inf"))),
                    _connector="OR",
                ),
                name="expected_are_finite",
            ),
        ),
        migrations.AddConstraint(
            model_name="regressioncase",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("value", None),
                    models.Q(("value__gt", float("-inf")), ("value__lt", float("inf"))),
                    _connector="OR",
                ),
                name="case_values_are_finite",
            ),
        ),
        migrations.AddConstraint(
            model_name="regressioncase",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("value", None), _negated=True),
                    models.Q(("reason", ""), _negated=True),
                    _connector="OR",
                ),
                name="a_case_without_value_says_why",
            ),
        ),
        migrations.AddConstraint(
            model_name="regressioncase",
            constraint=models.UniqueConstraint(
                fields=("project", "digest"), name="one_case_per_scoring"
            ),
        ),
        migrations.AddIndex(
            model_name="trial",
            index=models.Index(fields=["project", "-id"], name="trials_of_a_project"),
        ),
        migrations.AddIndex(
            model_name="trial",
            index=models.Index(
                condition=models.Q(("state__in", ["waiting", "running"])),
                fields=["id"],
                name="open_trials",
            ),
        ),
        migrations.AddConstraint(
            model_name="trial",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "failed"), _negated=True),
                    models.Q(("reason", ""), _negated=True),
                    _connector="OR",
                ),
                name="a_failed_trial_says_why",
            ),
        ),
    ]
