"""Environments, the episodes played in them, and every turn: what was seen, what was done, and what that earned."""

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
FAILURES_ALLOWED = 5  # in a row, before its breaker opens
LONGEST_REWARD_S = 30 * 86_400.0  # that a rollout may wait for its rewards
FIRST_REST_S, LONGEST_REST_S = 30, 3600  # how long it stays open; the time doubles with each failure after that
# One word of an address, and a scorer's name.
NAME = RegexValidator(r"^[a-z0-9][a-z0-9_-]{0,59}\Z", "use small letters, digits, - and _; at most 60")


def any_text() -> dict:
    """The schema of what is said by default: a text, or chat messages."""
    message = {
        "type": "object",
        "properties": {"role": {"enum": ["user", "tool", "system"]}, "content": {"type": "string"}},
        "required": ["role", "content"],
    }
    return {"anyOf": [{"type": "string"}, {"type": "array", "items": message}]}


def a_text() -> dict:
    return {"type": "string"}


def _finite(field: str) -> Q:
    """In Postgres NaN sorts above every number, so one comparison refuses NaN and both infinities."""
    return Q(**{field: None}) | (Q(**{f"{field}__gt": -INFINITE}) & Q(**{f"{field}__lt": INFINITE}))


class EnvironmentQuerySet(models.QuerySet):
    def visible_to(self, user: User) -> "EnvironmentQuerySet":
        return self.filter(project__in=Project.objects.visible_to(user))


class Environment(models.Model):
    """Something that answers actions with observations and rewards, wherever it runs."""

    class Kind(models.TextChoices):
        PUSH = "push", "they call us"
        AGENT = "agent", "an agent that calls us as its model"
        LIBRARY = "library", "a class of ours"
        OPENENV = "openenv", "an OpenEnv server"
        HTTP = "http", "a reset/step service"
        GYMNASIUM = "gymnasium", "a Gymnasium environment"
        VERIFIERS = "verifiers", "a taskset of the verifiers package"

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
    reward_low = models.FloatField(default=0.0, help_text="Least that one action can earn.")
    reward_high = models.FloatField(default=1.0, help_text="Most that one action can earn.")
    turn_limit = models.PositiveIntegerField(default=16, help_text="Actions in one episode, at most.")
    turn_s = models.FloatField(default=30.0, help_text="Seconds the environment may take for one answer.")
    person_s = models.FloatField(
        default=900.0, db_default=900.0, help_text="Seconds a person who plays it from its page may take for one answer."
    )
    episode_s = models.FloatField(default=1800.0, help_text="Seconds from the first observation asked for to the end, at most.")
    reward_s = models.FloatField(
        default=0.0, help_text="Seconds after an episode's end within which its rewards may still come; 0: it is judged at its end."
    )
    parallel = models.PositiveIntegerField(default=64, help_text="Episodes played at once, at most.")
    address = models.CharField(max_length=500, blank=True, help_text="Where it is reached, of those that we call.")
    options = models.JSONField(default=dict, blank=True)
    failures = models.PositiveIntegerField(default=0, help_text="Episodes that failed in a row.")
    open_until = models.DateTimeField(null=True, help_text="Until when its breaker is open: no run opens groups in it.")
    open_reason = ReasonField(max_length=300, blank=True, help_text="The failure that opened it.")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(db_default=Now())

    objects = EnvironmentQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "name"], name="one_environment_per_name"),
            models.CheckConstraint(
                condition=Q(reward_low__gt=-INFINITE, reward_high__lt=INFINITE, reward_low__lte=F("reward_high")),
                name="a_range_of_rewards_is_finite",
            ),
            models.CheckConstraint(
                condition=Q(turn_s__gt=0, turn_s__lt=INFINITE, episode_s__gt=0, episode_s__lt=INFINITE),
                name="time_limits_are_finite",
            ),
            models.CheckConstraint(condition=Q(person_s__gt=0, person_s__lt=INFINITE), name="people_have_a_finite_time"),
            models.CheckConstraint(
                condition=Q(reward_s__gte=0, reward_s__lte=LONGEST_REWARD_S), name="rewards_may_come_for_a_finite_time"
            ),
            models.CheckConstraint(condition=Q(turn_limit__gte=1, parallel__gte=1), name="an_environment_can_be_played"),
            models.CheckConstraint(
                condition=Q(kind__in=["push", "agent", "library", "openenv", "http", "gymnasium", "verifiers"]), name="known_kinds"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def calls_us(self) -> bool:
        return self.kind in self.CALLING

    @property
    def is_service(self) -> bool:
        """Whether all explorers call one and the same, so that its episodes wait for room (apps.environments.admitting)."""
        return self.kind in self.SERVICES


class PlaySession(models.Model):
    """An outside client in the policy's seat of an environment, by OpenEnv's protocol: as long as its connection lives."""

    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="sessions")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="play_sessions", help_text="Who acts."
    )
    way = models.CharField(max_length=4, help_text="By which it came: ws, mcp or http.")
    opened_at = models.DateTimeField(db_default=Now())
    alive_at = models.DateTimeField(db_default=Now(), help_text="When its connection was last known to live.")
    heard_at = models.DateTimeField(null=True, help_text="When its client last said something.")
    closed_at = models.DateTimeField(null=True)
    reason = ReasonField(max_length=300, blank=True, help_text="Why it ended.")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(closed_at=None) | ~Q(reason=""), name="a_session_that_ended_says_why"),
        ]
        indexes = [models.Index(fields=["environment", "alive_at"], name="living_sessions", condition=Q(closed_at=None))]

    def __str__(self) -> str:
        return f"session {self.pk}"


class EpisodeQuerySet(models.QuerySet):
    def visible_to(self, user: User) -> "EpisodeQuerySet":
        return self.filter(environment__project__in=Project.objects.visible_to(user))

    def open(self) -> "EpisodeQuerySet":
        return self.filter(state__in=Episode.OPEN)


class Episode(models.Model):
    """One play of an environment, from its seed to its end: a run's attempt at a task, or one that an outside client plays in a
    session and nobody trains on.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "nobody plays it yet"
        ENVIRONMENT = "environment", "the environment's move"
        POLICY = "policy", "the policy's move"
        DONE = "done"
        FAILED = "failed"
        ABANDONED = "abandoned"

    OPEN = (State.WAITING, State.ENVIRONMENT, State.POLICY)
    CLOSED = (State.DONE, State.FAILED, State.ABANDONED)

    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="episodes")
    run = models.ForeignKey(Run, null=True, on_delete=models.CASCADE, related_name="episodes")
    rollout = models.ForeignKey(Rollout, null=True, on_delete=models.CASCADE, related_name="episodes")
    session = models.ForeignKey(
        PlaySession, null=True, on_delete=models.PROTECT, related_name="episodes", help_text="Whose client acts, in place of a run."
    )
    fence = models.BigIntegerField(default=0, help_text="The group's, under which this attempt is made.")
    client = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="episodes_taken", help_text="Who plays it."
    )
    by_hand = models.BooleanField(default=False, db_default=False, help_text="A person plays it, from its page.")
    key = models.CharField(max_length=200, blank=True, help_text="What who plays it calls it.")
    seed = models.BigIntegerField(help_text="The same for all rollouts of a group: what is compared began alike.")
    options = models.JSONField(default=dict, help_text="The run's for the environment, and the task's.")
    turn_limit = models.PositiveIntegerField()
    reward_s = models.FloatField(default=0.0, help_text="Seconds after its end within which its rewards may still come.")
    settle_s = models.FloatField(null=True, help_text="Seconds after the newest word on it within which that may still be changed.")
    origin = models.JSONField(default=dict, help_text="Of one that was imported: what it, its run and its group are called there.")
    state = models.CharField(max_length=11, choices=State.choices)
    reason = ReasonField(max_length=300, blank=True, help_text="Why it ended.")
    turns = models.PositiveIntegerField(default=0, help_text="Observations so far.")
    opened_at = models.DateTimeField(db_default=Now())
    moved_at = models.DateTimeField(db_default=Now(), help_text="Since when it is the move of whose move it is.")
    begun_at = models.DateTimeField(null=True, help_text="When the environment was asked for its first observation.")
    heard_at = models.DateTimeField(null=True, help_text="When who plays it was last heard of.")
    closed_at = models.DateTimeField(null=True)
    is_final = models.BooleanField(default=False, help_text="Who plays it has said that no further reward comes.")
    reward_until = models.DateTimeField(null=True, help_text="Until when its rewards may come; NULL where none are waited for.")

    objects = EpisodeQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["rollout", "fence"], name="one_episode_per_attempt"),
            models.UniqueConstraint(
                fields=["rollout"], condition=Q(state__in=["waiting", "environment", "policy"]), name="one_open_episode_per_rollout"
            ),
            models.UniqueConstraint(
                fields=["run", "environment", "key"], condition=~Q(key="") & Q(run__isnull=False), name="one_episode_per_key"
            ),
            models.UniqueConstraint(
                fields=["environment", "key"], condition=~Q(key="") & Q(run=None), name="one_outside_episode_per_key"
            ),
            models.CheckConstraint(
                condition=Q(state__in=["waiting", "environment", "policy"], closed_at=None)
                | (Q(state__in=["done", "failed", "abandoned"], closed_at__isnull=False) & ~Q(reason="")),
                name="an_episode_that_ended_says_why",
            ),
            models.CheckConstraint(
                condition=Q(run__isnull=False, session=None) | Q(run=None, rollout=None, session__isnull=False),
                name="an_episode_is_of_a_run_or_of_a_session",
            ),
        ]
        indexes = [
            models.Index(fields=["environment", "id"], name="episodes_to_be_taken", condition=Q(state="waiting")),
            models.Index(fields=["environment", "state", "-id"], name="episodes_of_an_environment"),
            models.Index(fields=["run", "-id"], name="newest_episodes"),
            # apps.environments.judging: those that have waited long enough, and those that a group waits for.
            models.Index(fields=["reward_until"], name="episodes_awaiting_rewards", condition=Q(reward_until__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"episode {self.pk}"

    @property
    def is_open(self) -> bool:
        return self.state in self.OPEN


class EpisodeTurn(models.Model):
    """An observation, what the policy did on it, and what that earned. The last observation has no action: nothing follows it."""

    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="seen")
    number = models.PositiveIntegerField(help_text="From 0.")
    observation = models.JSONField(help_text="A text, or chat messages: [{role: user | tool | system, content}].")
    done = models.BooleanField(default=False, help_text="The environment said that nothing follows.")
    info = models.JSONField(default=dict, help_text="What the environment adds for people; never shown to the policy.")
    tools = models.JSONField(default=list, help_text="What the policy may call, as its chat template reads it.")
    wishes = models.JSONField(default=dict, help_text="How the action was to be sampled (apps.environments.wishes).")
    action = models.TextField(blank=True)
    is_cut = models.BooleanField(default=False, help_text="A length cut the action: the run's, or the one wished for.")
    reward = models.FloatField(null=True, help_text="What the action earned.")
    late_reward = models.FloatField(null=True, help_text="What came when the rollout was judged already: kept, not trained on.")
    reason = ReasonField(max_length=300, blank=True, help_text="Why the action has no reward.")
    first = models.PositiveIntegerField(null=True, help_text="The action's first token in the rollout's completion.")
    tokens = models.PositiveIntegerField(default=0)
    weight_version = models.PositiveIntegerField(null=True, help_text="Oldest that sampled a token of the action.")
    before = models.PositiveIntegerField(
        null=True, help_text="Tokens the policy had seen when it acted: the prompt's, and all since."
    )
    logprobs = models.JSONField(null=True, help_text="[text, bytes, logprob] of each token of the action, where wished for.")
    asked_at = models.DateTimeField(db_default=Now(), help_text="When the observation came.")
    answered_at = models.DateTimeField(null=True, help_text="When the action was there.")
    rewarded_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["episode", "number"], name="one_turn_per_number"),
            models.CheckConstraint(condition=_finite("reward") & _finite("late_reward"), name="turn_rewards_are_finite"),
            models.CheckConstraint(condition=Q(done=False) | Q(answered_at=None), name="nobody_acts_on_the_last_observation"),
        ]

    def __str__(self) -> str:
        return f"{self.episode_id}.{self.number}"


class TurnedAway(models.Model):
    """How often a run that serves has refused to begin a session: not kept on the run's row, which its workers write."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, primary_key=True, related_name="turned_away")
    count = models.PositiveIntegerField(default=0)
    at = models.DateTimeField(db_default=Now(), help_text="The last time.")

    def __str__(self) -> str:
        return f"{self.run_id}: {self.count}"

    @classmethod
    def note(cls, run: Run) -> None:
        cls.objects.bulk_create([cls(run=run)], ignore_conflicts=True)
        cls.objects.filter(run=run).update(count=F("count") + 1, at=Now())


class Feedback(models.Model):
    """What somebody said of an action of the policy's; said again, differently, it is a further version."""

    turn = models.ForeignKey(EpisodeTurn, on_delete=models.CASCADE, related_name="feedback")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="agent_feedback")
    person = models.CharField(max_length=200, blank=True, help_text="Whom of its users the agent names; empty: the agent itself.")
    version = models.PositiveIntegerField(help_text="Of this person's words on this action, from 1.")
    value = models.FloatField(null=True, help_text="What it means as a reward; none in a correction alone.")
    is_thumb = models.BooleanField(default=False, help_text="The value was a thumb, up or down.")
    correction = models.TextField(blank=True, help_text="What should have been said.")
    is_late = models.BooleanField(help_text="The rollout was judged already: kept, not trained on.")
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["at", "pk"]
        constraints = [
            models.UniqueConstraint(fields=["turn", "by", "person", "version"], name="one_feedback_per_version"),
            models.CheckConstraint(condition=_finite("value"), name="feedback_is_finite"),
            models.CheckConstraint(condition=Q(value__isnull=False) | ~Q(correction=""), name="feedback_says_something"),
        ]

    def __str__(self) -> str:
        return f"{self.turn} by {self.person or self.by}, version {self.version}"
