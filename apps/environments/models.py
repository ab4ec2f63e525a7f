"""Environments, episodes, and turns with their observations, actions and rewards."""

from django.conf import settings
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from apps.accounts.models import Project, User
from apps.accounts.public_text import ReasonField
from apps.rollouts.models import Rollout
from apps.runs.models import Run

INFINITE = float("inf")
FAILURES_ALLOWED = 5  # consecutive failures before the breaker opens
MAX_REWARD_S = 30 * 86_400.0  # seconds for which a rollout may wait for its rewards
FIRST_REST_S = 30
MAX_OPEN_S = 3600  # how long it stays open; the time doubles with each failure after that
# The name is a part of URLs and a scorer's name.
NAME = RegexValidator(
    r"^[a-z0-9][a-z0-9_-]{0,59}\Z", "use small letters, digits, - and _; at most 60"
)


def any_text() -> dict:
    """Return the default observation schema: a text, or chat messages."""
    message = {
        "type": "object",
        "properties": {"role": {"enum": ["user", "tool", "system"]}, "content": {"type": "string"}},
        "required": ["role", "content"],
    }
    return {"anyOf": [{"type": "string"}, {"type": "array", "items": message}]}


def a_text() -> dict:
    return {"type": "string"}


def _finite(field: str) -> Q:
    """Return a condition that refuses NaN and both infinities by one comparison.

    In Postgres NaN sorts above every number.
    """
    return Q(**{field: None}) | (Q(**{f"{field}__gt": -INFINITE}) & Q(**{f"{field}__lt": INFINITE}))


class EnvironmentQuerySet(models.QuerySet):
    def visible_to(self, user: User) -> "EnvironmentQuerySet":
        return self.filter(project__in=Project.objects.visible_to(user))


class Environment(models.Model):
    """A source of observations and rewards for actions, wherever it runs."""

    class Kind(models.TextChoices):
        PUSH = "push", "connects to rftweb"
        AGENT = "agent", "agent that uses the gateway"
        LIBRARY = "library", "built-in Python class"
        OPENENV = "openenv", "OpenEnv server"
        HTTP = "http", "reset/step service"
        GYMNASIUM = "gymnasium", "Gymnasium environment"
        VERIFIERS = "verifiers", "verifiers environment"

    CALLING = (Kind.PUSH, Kind.AGENT)
    SERVICES = (Kind.OPENENV, Kind.HTTP)

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="environments")
    name = models.CharField(max_length=60, validators=[NAME])
    version = models.CharField(max_length=40, default="1")
    kind = models.CharField(max_length=9, choices=Kind.choices)
    title = models.CharField(max_length=200, blank=True)
    description = models.TextField(blank=True)
    observation_schema = models.JSONField(default=any_text)
    action_schema = models.JSONField(default=a_text)
    reward_low = models.FloatField(default=0.0, help_text="Minimum reward of one action.")
    reward_high = models.FloatField(default=1.0, help_text="Maximum reward of one action.")
    turn_limit = models.PositiveIntegerField(
        default=16, help_text="Maximum number of actions in one episode."
    )
    turn_s = models.FloatField(
        default=30.0, help_text="Timeout in seconds for one answer of the environment."
    )
    person_s = models.FloatField(
        default=900.0,
        db_default=900.0,
        help_text=(
            "Timeout in seconds for one answer of a person who plays the environment "
            "in the browser."
        ),
    )
    episode_s = models.FloatField(
        default=1800.0,
        help_text=(
            "Maximum duration of an episode in seconds, from the request for the first observation."
        ),
    )
    reward_s = models.FloatField(
        default=0.0,
        help_text=(
            "Seconds to wait for rewards after the end of an episode; 0 to judge it at once."
        ),
    )
    parallel = models.PositiveIntegerField(
        default=64, help_text="Maximum number of simultaneous episodes."
    )
    address = models.CharField(
        max_length=500, blank=True, help_text="URL of the environment's server, if it has one."
    )
    options = models.JSONField(default=dict, blank=True)
    failures = models.PositiveIntegerField(
        default=0, help_text="Number of consecutive failed episodes."
    )
    open_until = models.DateTimeField(
        null=True,
        help_text=(
            "Until when the circuit breaker is open. Meanwhile no run opens "
            "groups in the environment."
        ),
    )
    open_reason = ReasonField(
        max_length=300, blank=True, help_text="The error that opened the circuit breaker."
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL
    )
    created_at = models.DateTimeField(db_default=Now())

    objects = EnvironmentQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "name"], name="one_environment_per_name"),
            models.CheckConstraint(
                condition=Q(
                    reward_low__gt=-INFINITE,
                    reward_high__lt=INFINITE,
                    reward_low__lte=F("reward_high"),
                ),
                name="a_range_of_rewards_is_finite",
            ),
            models.CheckConstraint(
                condition=Q(
                    turn_s__gt=0, turn_s__lt=INFINITE, episode_s__gt=0, episode_s__lt=INFINITE
                ),
                name="time_limits_are_finite",
            ),
            models.CheckConstraint(
                condition=Q(person_s__gt=0, person_s__lt=INFINITE), name="people_have_a_finite_time"
            ),
            models.CheckConstraint(
                condition=Q(reward_s__gte=0, reward_s__lte=MAX_REWARD_S),
                name="rewards_may_come_for_a_finite_time",
            ),
            models.CheckConstraint(
                condition=Q(turn_limit__gte=1, parallel__gte=1), name="an_environment_can_be_played"
            ),
            models.CheckConstraint(
                condition=Q(
                    kind__in=[
                        "push",
                        "agent",
                        "library",
                        "openenv",
                        "http",
                        "gymnasium",
                        "verifiers",
                    ]
                ),
                name="known_kinds",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def calls_us(self) -> bool:
        return self.kind in self.CALLING

    @property
    def is_service(self) -> bool:
        """Tell whether all explorers share one service, so that episodes wait for room.

        See apps.environments.admitting.
        """
        return self.kind in self.SERVICES


class PlaySession(models.Model):
    """An outside client that acts in an environment in place of a policy, by OpenEnv's protocol.

    The session exists as long as its connection.
    """

    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="sessions")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.PROTECT,
        related_name="play_sessions",
        help_text="The user who acts.",
    )
    way = models.CharField(max_length=4, help_text="Protocol of the connection: ws, mcp or http.")
    opened_at = models.DateTimeField(db_default=Now())
    alive_at = models.DateTimeField(
        db_default=Now(), help_text="When the connection was last known to be alive."
    )
    heard_at = models.DateTimeField(null=True, help_text="When the client last sent a message.")
    closed_at = models.DateTimeField(null=True)
    reason = ReasonField(max_length=300, blank=True, help_text="Why it was closed.")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(closed_at=None) | ~Q(reason=""), name="a_session_that_ended_says_why"
            ),
        ]
        indexes = [
            models.Index(
                fields=["environment", "alive_at"],
                name="living_sessions",
                condition=Q(closed_at=None),
            )
        ]

    def __str__(self) -> str:
        return f"session {self.pk}"


class EpisodeQuerySet(models.QuerySet):
    def visible_to(self, user: User) -> "EpisodeQuerySet":
        return self.filter(environment__project__in=Project.objects.visible_to(user))

    def open(self) -> "EpisodeQuerySet":
        return self.filter(state__in=Episode.OPEN)


class Episode(models.Model):
    """One play of an environment, from its seed to its end.

    It is a run's attempt at a task, or an outside client's play, which nobody trains on.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "waiting for a player"
        ENVIRONMENT = "environment", "waiting for the environment"
        POLICY = "policy", "waiting for the policy"
        DONE = "done"
        FAILED = "failed"
        ABANDONED = "abandoned"

    OPEN = (State.WAITING, State.ENVIRONMENT, State.POLICY)
    CLOSED = (State.DONE, State.FAILED, State.ABANDONED)

    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="episodes")
    run = models.ForeignKey(Run, null=True, on_delete=models.CASCADE, related_name="episodes")
    rollout = models.ForeignKey(
        Rollout, null=True, on_delete=models.CASCADE, related_name="episodes"
    )
    session = models.ForeignKey(
        PlaySession,
        null=True,
        on_delete=models.PROTECT,
        related_name="episodes",
        help_text="Session whose client acts in place of a run.",
    )
    fence = models.BigIntegerField(default=0, help_text="Fence of the group during this attempt.")
    client = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.PROTECT,
        related_name="episodes_taken",
        help_text="The user that plays the environment.",
    )
    by_hand = models.BooleanField(
        default=False, db_default=False, help_text="A person plays the environment in the browser."
    )
    key = models.CharField(max_length=200, blank=True, help_text="ID of the episode at the client.")
    seed = models.BigIntegerField(
        help_text="Same seed for all rollouts of a group, so that they start from the same state."
    )
    options = models.JSONField(
        default=dict, help_text="Options of the run and of the task for the environment."
    )
    turn_limit = models.PositiveIntegerField()
    reward_s = models.FloatField(
        default=0.0, help_text="Seconds to wait for rewards after the end of the episode."
    )
    settle_s = models.FloatField(
        null=True,
        help_text="Seconds after the latest feedback during which it may still be changed.",
    )
    origin = models.JSONField(
        default=dict,
        help_text="For an imported episode: the IDs of episode, run and group at its source.",
    )
    state = models.CharField(max_length=11, choices=State.choices)
    reason = ReasonField(max_length=300, blank=True, help_text="Why it was closed.")
    turns = models.PositiveIntegerField(default=0, help_text="Number of observations so far.")
    opened_at = models.DateTimeField(db_default=Now())
    moved_at = models.DateTimeField(db_default=Now(), help_text="When the current move began.")
    begun_at = models.DateTimeField(
        null=True, help_text="When the first observation was requested."
    )
    heard_at = models.DateTimeField(null=True, help_text="When the player last sent a message.")
    closed_at = models.DateTimeField(null=True)
    is_final = models.BooleanField(
        default=False, help_text="The player has declared that no further reward follows."
    )
    reward_until = models.DateTimeField(
        null=True, help_text="Deadline for rewards; NULL if none are expected."
    )

    objects = EpisodeQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["rollout", "fence"], name="one_episode_per_attempt"),
            models.UniqueConstraint(
                fields=["rollout"],
                condition=Q(state__in=["waiting", "environment", "policy"]),
                name="one_open_episode_per_rollout",
            ),
            models.UniqueConstraint(
                fields=["run", "environment", "key"],
                condition=~Q(key="") & Q(run__isnull=False),
                name="one_episode_per_key",
            ),
            models.UniqueConstraint(
                fields=["environment", "key"],
                condition=~Q(key="") & Q(run=None),
                name="one_outside_episode_per_key",
            ),
            models.CheckConstraint(
                condition=Q(state__in=["waiting", "environment", "policy"], closed_at=None)
                | (
                    Q(state__in=["done", "failed", "abandoned"], closed_at__isnull=False)
                    & ~Q(reason="")
                ),
                name="an_episode_that_ended_says_why",
            ),
            models.CheckConstraint(
                condition=Q(run__isnull=False, session=None)
                | Q(run=None, rollout=None, session__isnull=False),
                name="an_episode_is_of_a_run_or_of_a_session",
            ),
        ]
        indexes = [
            models.Index(
                fields=["environment", "id"],
                name="episodes_to_be_taken",
                condition=Q(state="waiting"),
            ),
            models.Index(fields=["environment", "state", "-id"], name="episodes_of_an_environment"),
            models.Index(fields=["run", "-id"], name="newest_episodes"),
            # apps.environments.judging: those that have waited long enough, and those that a group
            # waits for.
            models.Index(
                fields=["reward_until"],
                name="episodes_awaiting_rewards",
                condition=Q(reward_until__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"episode {self.pk}"

    @property
    def is_open(self) -> bool:
        return self.state in self.OPEN

    @property
    def required_run(self) -> Run:
        """Return the run of a run's episode; an outside client's play has none."""
        assert self.run is not None
        return self.run

    @property
    def required_rollout(self) -> Rollout:
        """Return the rollout of a run's episode; an outside client's play has none."""
        assert self.rollout is not None
        return self.rollout


class EpisodeTurn(models.Model):
    """An observation, the policy's action on it, and the action's reward.

    The last observation has no action: nothing follows it.
    """

    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="seen")
    number = models.PositiveIntegerField(help_text="Number of the observation, from 0.")
    observation = models.JSONField(
        help_text="Text or chat messages: [{role: user | tool | system, content}]."
    )
    done = models.BooleanField(
        default=False, help_text="The environment declared the end of the episode."
    )
    info = models.JSONField(
        default=dict,
        help_text="Information from the environment for people. Never shown to the policy.",
    )
    tools = models.JSONField(
        default=list,
        help_text="Tools that the policy may call, in the format of its chat template.",
    )
    wishes = models.JSONField(
        default=dict, help_text="Requested sampling settings (apps.environments.action_sampling)."
    )
    action = models.TextField(blank=True)
    is_cut = models.BooleanField(
        default=False,
        help_text="The action was truncated by the length limit of the run or of the request.",
    )
    reward = models.FloatField(null=True, help_text="Reward of the action.")
    late_reward = models.FloatField(
        null=True,
        help_text=(
            "Reward that arrived after the rollout was judged: stored, but not used in training."
        ),
    )
    reason = ReasonField(max_length=300, blank=True, help_text="Why the action has no reward.")
    first = models.PositiveIntegerField(
        null=True, help_text="Index of the action's first token in the rollout's completion."
    )
    tokens = models.PositiveIntegerField(default=0)
    weight_version = models.PositiveIntegerField(
        null=True, help_text="Oldest weight version that sampled a token of the action."
    )
    before = models.PositiveIntegerField(
        null=True,
        help_text="Number of context tokens before the action, prompt included.",
    )
    logprobs = models.JSONField(
        null=True, help_text="[text, bytes, logprob] of each token of the action, if requested."
    )
    requested_at = models.DateTimeField(db_default=Now(), help_text="When the observation arrived.")
    answered_at = models.DateTimeField(null=True, help_text="When the action was complete.")
    rewarded_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["episode", "number"], name="one_turn_per_number"),
            models.CheckConstraint(
                condition=_finite("reward") & _finite("late_reward"), name="turn_rewards_are_finite"
            ),
            models.CheckConstraint(
                condition=Q(done=False) | Q(answered_at=None),
                name="nobody_acts_on_the_last_observation",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.episode_id}.{self.number}"


class TurnedAway(models.Model):
    """The count of sessions that a serving run refused.

    It is not kept on the run's row, which the run's workers write.
    """

    run = models.OneToOneField(
        Run, on_delete=models.CASCADE, primary_key=True, related_name="turned_away"
    )
    count = models.PositiveIntegerField(default=0)
    at = models.DateTimeField(db_default=Now(), help_text="When a session was last refused.")

    def __str__(self) -> str:
        return f"{self.run_id}: {self.count}"

    @classmethod
    def note(cls, run: Run) -> None:
        TurnedAway.objects.bulk_create([TurnedAway(run=run)], ignore_conflicts=True)
        cls.objects.filter(run=run).update(count=F("count") + 1, at=Now())


class Feedback(models.Model):
    """A person's feedback on an action; changed feedback is stored as a further version."""

    turn = models.ForeignKey(EpisodeTurn, on_delete=models.CASCADE, related_name="feedback")
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="agent_feedback"
    )
    person = models.CharField(
        max_length=200,
        blank=True,
        help_text="User named by the agent; empty for the agent itself.",
    )
    version = models.PositiveIntegerField(
        help_text="Version of this person's feedback on this action, from 1."
    )
    value = models.FloatField(
        null=True, help_text="Value as a reward; NULL for a correction without a value."
    )
    is_thumb = models.BooleanField(
        default=False, help_text="The value was given as thumbs up or thumbs down."
    )
    correction = models.TextField(blank=True, help_text="The corrected text.")
    is_late = models.BooleanField(
        help_text="The rollout was already judged: stored, but not used in training."
    )
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["at", "pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["turn", "by", "person", "version"], name="one_feedback_per_version"
            ),
            models.CheckConstraint(condition=_finite("value"), name="feedback_is_finite"),
            models.CheckConstraint(
                condition=Q(value__isnull=False) | ~Q(correction=""), name="feedback_says_something"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.turn} by {self.person or self.by}, version {self.version}"
