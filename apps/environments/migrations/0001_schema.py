import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import apps.environments.models
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
                    name="Environment",
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
                                related_name="environments",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "name",
                            models.CharField(
                                max_length=60,
                                validators=[
                                    django.core.validators.RegexValidator(
                                        "^[a-z0-9][a-z0-9_-]{0,59}\\Z",
                                        "use small letters, digits, - and _; at most 60",
                                    )
                                ],
                            ),
                        ),
                        ("version", models.CharField(default="1", max_length=40)),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("push", "connects to rftweb"),
                                    ("agent", "agent that uses the gateway"),
                                    ("library", "built-in Python class"),
                                    ("openenv", "OpenEnv server"),
                                    ("http", "reset/step service"),
                                    ("gymnasium", "Gymnasium environment"),
                                    ("verifiers", "verifiers environment"),
                                ],
                                max_length=9,
                            ),
                        ),
                        ("title", models.CharField(blank=True, max_length=200)),
                        ("description", models.TextField(blank=True)),
                        (
                            "observation_schema",
                            models.JSONField(default=apps.environments.models.any_text),
                        ),
                        (
                            "action_schema",
                            models.JSONField(default=apps.environments.models.a_text),
                        ),
                        (
                            "reward_low",
                            models.FloatField(
                                default=0.0, help_text="Minimum reward of one action."
                            ),
                        ),
                        (
                            "reward_high",
                            models.FloatField(
                                default=1.0, help_text="Maximum reward of one action."
                            ),
                        ),
                        (
                            "turn_limit",
                            models.PositiveIntegerField(
                                default=16, help_text="Maximum number of actions in one episode."
                            ),
                        ),
                        (
                            "turn_s",
                            models.FloatField(
                                default=30.0,
                                help_text="Timeout in seconds for one answer of the environment.",
                            ),
                        ),
                        (
                            "person_s",
                            models.FloatField(
                                db_default=900.0,
                                default=900.0,
                                help_text=(
                                    "Timeout in seconds for one answer of a person who plays "
                                    "the environment in the browser."
                                ),
                            ),
                        ),
                        (
                            "episode_s",
                            models.FloatField(
                                default=1800.0,
                                help_text=(
                                    "Maximum duration of an episode in seconds, from the "
                                    "request for the first observation."
                                ),
                            ),
                        ),
                        (
                            "reward_s",
                            models.FloatField(
                                default=0.0,
                                help_text=(
                                    "Seconds to wait for rewards after the end of an episode; "
                                    "0 to judge it at once."
                                ),
                            ),
                        ),
                        (
                            "parallel",
                            models.PositiveIntegerField(
                                default=64, help_text="Maximum number of simultaneous episodes."
                            ),
                        ),
                        (
                            "address",
                            models.CharField(
                                blank=True,
                                help_text="URL of the environment's server, if it has one.",
                                max_length=500,
                            ),
                        ),
                        ("options", models.JSONField(blank=True, default=dict)),
                        (
                            "failures",
                            models.PositiveIntegerField(
                                default=0, help_text="Number of consecutive failed episodes."
                            ),
                        ),
                        (
                            "open_until",
                            models.DateTimeField(
                                help_text=(
                                    "Until when the circuit breaker is open. Meanwhile no run "
                                    "opens groups in the environment."
                                ),
                                null=True,
                            ),
                        ),
                        (
                            "open_reason",
                            models.CharField(
                                blank=True,
                                help_text="The error that opened the circuit breaker.",
                                max_length=300,
                            ),
                        ),
                        (
                            "created_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                to=settings.AUTH_USER_MODEL,
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
                                fields=("project", "name"), name="one_environment_per_name"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("reward_high__lt", float("inf")),
                                    ("reward_low__gt", float("-inf")),
                                    ("reward_low__lte", models.F("reward_high")),
                                ),
                                name="a_range_of_rewards_is_finite",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("episode_s__gt", 0),
                                    ("episode_s__lt", float("inf")),
                                    ("turn_s__gt", 0),
                                    ("turn_s__lt", float("inf")),
                                ),
                                name="time_limits_are_finite",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("person_s__gt", 0), ("person_s__lt", float("inf"))
                                ),
                                name="people_have_a_finite_time",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("reward_s__gte", 0), ("reward_s__lte", 2592000.0)
                                ),
                                name="rewards_may_come_for_a_finite_time",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("parallel__gte", 1), ("turn_limit__gte", 1)),
                                name="an_environment_can_be_played",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    (
                                        "kind__in",
                                        [
                                            "push",
                                            "agent",
                                            "library",
                                            "openenv",
                                            "http",
                                            "gymnasium",
                                            "verifiers",
                                        ],
                                    )
                                ),
                                name="known_kinds",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="PlaySession",
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
                            "environment",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="sessions",
                                to="environments.environment",
                            ),
                        ),
                        (
                            "user",
                            models.ForeignKey(
                                help_text="The user who acts.",
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="play_sessions",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "way",
                            models.CharField(
                                help_text="Protocol of the connection: ws, mcp or http.",
                                max_length=4,
                            ),
                        ),
                        (
                            "opened_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                        (
                            "alive_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now(),
                                help_text="When the connection was last known to be alive.",
                            ),
                        ),
                        (
                            "heard_at",
                            models.DateTimeField(
                                help_text="When the client last sent a message.", null=True
                            ),
                        ),
                        ("closed_at", models.DateTimeField(null=True)),
                        (
                            "reason",
                            models.CharField(
                                blank=True, help_text="Why it was closed.", max_length=300
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("closed_at", None)),
                                fields=["environment", "alive_at"],
                                name="living_sessions",
                            )
                        ],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("closed_at", None),
                                    models.Q(("reason", ""), _negated=True),
                                    _connector="OR",
                                ),
                                name="a_session_that_ended_says_why",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Episode",
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
                            "environment",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="episodes",
                                to="environments.environment",
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="episodes",
                                to="runs.run",
                            ),
                        ),
                        (
                            "rollout",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="episodes",
                                to="rollouts.rollout",
                            ),
                        ),
                        (
                            "session",
                            models.ForeignKey(
                                help_text="Session whose client acts in place of a run.",
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="episodes",
                                to="environments.playsession",
                            ),
                        ),
                        (
                            "fence",
                            models.BigIntegerField(
                                default=0, help_text="Fence of the group during this attempt."
                            ),
                        ),
                        (
                            "client",
                            models.ForeignKey(
                                help_text="The user that plays the environment.",
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="episodes_taken",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "by_hand",
                            models.BooleanField(
                                db_default=False,
                                default=False,
                                help_text="A person plays the environment in the browser.",
                            ),
                        ),
                        (
                            "key",
                            models.CharField(
                                blank=True,
                                help_text="ID of the episode at the client.",
                                max_length=200,
                            ),
                        ),
                        (
                            "seed",
                            models.BigIntegerField(
                                help_text=(
                                    "Same seed for all rollouts of a group, so that they start "
                                    "from the same state."
                                )
                            ),
                        ),
                        (
                            "options",
                            models.JSONField(
                                default=dict,
                                help_text="Options of the run and of the task for the environment.",
                            ),
                        ),
                        ("turn_limit", models.PositiveIntegerField()),
                        (
                            "reward_s",
                            models.FloatField(
                                default=0.0,
                                help_text="Seconds to wait for rewards after the end of the episode.",
                            ),
                        ),
                        (
                            "settle_s",
                            models.FloatField(
                                help_text=(
                                    "Seconds after the latest feedback during which it may "
                                    "still be changed."
                                ),
                                null=True,
                            ),
                        ),
                        (
                            "origin",
                            models.JSONField(
                                default=dict,
                                help_text=(
                                    "For an imported episode: the IDs of episode, run and "
                                    "group at its source."
                                ),
                            ),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("waiting", "waiting for a player"),
                                    ("environment", "waiting for the environment"),
                                    ("policy", "waiting for the policy"),
                                    ("done", "Done"),
                                    ("failed", "Failed"),
                                    ("abandoned", "Abandoned"),
                                ],
                                max_length=11,
                            ),
                        ),
                        (
                            "reason",
                            models.CharField(
                                blank=True, help_text="Why it was closed.", max_length=300
                            ),
                        ),
                        (
                            "turns",
                            models.PositiveIntegerField(
                                default=0, help_text="Number of observations so far."
                            ),
                        ),
                        (
                            "opened_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now()
                            ),
                        ),
                        (
                            "moved_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now(),
                                help_text="When the current move began.",
                            ),
                        ),
                        (
                            "begun_at",
                            models.DateTimeField(
                                help_text="When the first observation was requested.",
                                null=True,
                            ),
                        ),
                        (
                            "heard_at",
                            models.DateTimeField(
                                help_text="When the player last sent a message.", null=True
                            ),
                        ),
                        ("closed_at", models.DateTimeField(null=True)),
                        (
                            "is_final",
                            models.BooleanField(
                                default=False,
                                help_text="The player has declared that no further reward follows.",
                            ),
                        ),
                        (
                            "reward_until",
                            models.DateTimeField(
                                help_text="Deadline for rewards; NULL if none are expected.",
                                null=True,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("state", "waiting")),
                                fields=["environment", "id"],
                                name="episodes_to_be_taken",
                            ),
                            models.Index(
                                fields=["environment", "state", "-id"],
                                name="episodes_of_an_environment",
                            ),
                            models.Index(fields=["run", "-id"], name="newest_episodes"),
                            models.Index(
                                condition=models.Q(("reward_until__isnull", False)),
                                fields=["reward_until"],
                                name="episodes_awaiting_rewards",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("rollout", "fence"), name="one_episode_per_attempt"
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(
                                    ("state__in", ["waiting", "environment", "policy"])
                                ),
                                fields=("rollout",),
                                name="one_open_episode_per_rollout",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(
                                    models.Q(("key", ""), _negated=True), ("run__isnull", False)
                                ),
                                fields=("run", "environment", "key"),
                                name="one_episode_per_key",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(
                                    models.Q(("key", ""), _negated=True), ("run", None)
                                ),
                                fields=("environment", "key"),
                                name="one_outside_episode_per_key",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(
                                        ("closed_at", None),
                                        ("state__in", ["waiting", "environment", "policy"]),
                                    ),
                                    models.Q(
                                        ("closed_at__isnull", False),
                                        ("state__in", ["done", "failed", "abandoned"]),
                                        models.Q(("reason", ""), _negated=True),
                                    ),
                                    _connector="OR",
                                ),
                                name="an_episode_that_ended_says_why",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("run__isnull", False), ("session", None)),
                                    models.Q(
                                        ("rollout", None), ("run", None), ("session__isnull", False)
                                    ),
                                    _connector="OR",
                                ),
                                name="an_episode_is_of_a_run_or_of_a_session",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="EpisodeTurn",
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
                            "episode",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="seen",
                                to="environments.episode",
                            ),
                        ),
                        (
                            "number",
                            models.PositiveIntegerField(
                                help_text="Number of the observation, from 0."
                            ),
                        ),
                        (
                            "observation",
                            models.JSONField(
                                help_text=(
                                    "Text or chat messages: [{role: user | tool | system, content}]."
                                )
                            ),
                        ),
                        (
                            "done",
                            models.BooleanField(
                                default=False,
                                help_text="The environment declared the end of the episode.",
                            ),
                        ),
                        (
                            "info",
                            models.JSONField(
                                default=dict,
                                help_text=(
                                    "Information from the environment for people. Never shown "
                                    "to the policy."
                                ),
                            ),
                        ),
                        (
                            "tools",
                            models.JSONField(
                                default=list,
                                help_text=(
                                    "Tools that the policy may call, in the format of its chat template."
                                ),
                            ),
                        ),
                        (
                            "wishes",
                            models.JSONField(
                                default=dict,
                                help_text="Requested sampling settings (apps.environments.action_sampling).",
                            ),
                        ),
                        ("action", models.TextField(blank=True)),
                        (
                            "is_cut",
                            models.BooleanField(
                                default=False,
                                help_text=(
                                    "The action was truncated by the length limit of the run "
                                    "or of the request."
                                ),
                            ),
                        ),
                        ("reward", models.FloatField(help_text="Reward of the action.", null=True)),
                        (
                            "late_reward",
                            models.FloatField(
                                help_text=(
                                    "Reward that arrived after the rollout was judged: stored, "
                                    "but not used in training."
                                ),
                                null=True,
                            ),
                        ),
                        (
                            "reason",
                            models.CharField(
                                blank=True,
                                help_text="Why the action has no reward.",
                                max_length=300,
                            ),
                        ),
                        (
                            "first",
                            models.PositiveIntegerField(
                                help_text=(
                                    "Index of the action's first token in the rollout's completion."
                                ),
                                null=True,
                            ),
                        ),
                        ("tokens", models.PositiveIntegerField(default=0)),
                        (
                            "weight_version",
                            models.PositiveIntegerField(
                                help_text="Oldest weight version that sampled a token of the action.",
                                null=True,
                            ),
                        ),
                        (
                            "before",
                            models.PositiveIntegerField(
                                help_text="Number of context tokens before the action, prompt included.",
                                null=True,
                            ),
                        ),
                        (
                            "logprobs",
                            models.JSONField(
                                help_text=(
                                    "[text, bytes, logprob] of each token of the action, if requested."
                                ),
                                null=True,
                            ),
                        ),
                        (
                            "requested_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now(),
                                help_text="When the observation arrived.",
                            ),
                        ),
                        (
                            "answered_at",
                            models.DateTimeField(
                                help_text="When the action was complete.", null=True
                            ),
                        ),
                        ("rewarded_at", models.DateTimeField(null=True)),
                    ],
                    options={
                        "ordering": ["number"],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("episode", "number"), name="one_turn_per_number"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(
                                        ("reward", None),
                                        models.Q(
                                            ("reward__gt", float("-inf")),
                                            ("reward__lt", float("inf")),
                                        ),
                                        _connector="OR",
                                    ),
                                    models.Q(
                                        ("late_reward", None),
                                        models.Q(
                                            ("late_reward__gt", float("-inf")),
                                            ("late_reward__lt", float("inf")),
                                        ),
                                        _connector="OR",
                                    ),
                                ),
                                name="turn_rewards_are_finite",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("done", False), ("answered_at", None), _connector="OR"
                                ),
                                name="nobody_acts_on_the_last_observation",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="TurnedAway",
                    fields=[
                        (
                            "run",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                primary_key=True,
                                related_name="turned_away",
                                serialize=False,
                                to="runs.run",
                            ),
                        ),
                        ("count", models.PositiveIntegerField(default=0)),
                        (
                            "at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now(),
                                help_text="When a session was last refused.",
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="Feedback",
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
                            "turn",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="feedback",
                                to="environments.episodeturn",
                            ),
                        ),
                        (
                            "by",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="agent_feedback",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "person",
                            models.CharField(
                                blank=True,
                                help_text="User named by the agent; empty for the agent itself.",
                                max_length=200,
                            ),
                        ),
                        (
                            "version",
                            models.PositiveIntegerField(
                                help_text="Version of this person's feedback on this action, from 1."
                            ),
                        ),
                        (
                            "value",
                            models.FloatField(
                                help_text="Value as a reward; NULL for a correction without a value.",
                                null=True,
                            ),
                        ),
                        (
                            "is_thumb",
                            models.BooleanField(
                                default=False,
                                help_text="The value was given as thumbs up or thumbs down.",
                            ),
                        ),
                        (
                            "correction",
                            models.TextField(blank=True, help_text="The corrected text."),
                        ),
                        (
                            "is_late",
                            models.BooleanField(
                                help_text=(
                                    "The rollout was already judged: stored, but not used in training."
                                )
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
                        "ordering": ["at", "pk"],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("turn", "by", "person", "version"),
                                name="one_feedback_per_version",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("value", None),
                                    models.Q(
                                        ("value__gt", float("-inf")), ("value__lt", float("inf"))
                                    ),
                                    _connector="OR",
                                ),
                                name="feedback_is_finite",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("value__isnull", False),
                                    models.Q(("correction", ""), _negated=True),
                                    _connector="OR",
                                ),
                                name="feedback_says_something",
                            ),
                        ],
                    },
                ),
            ]
        ),
    ]
