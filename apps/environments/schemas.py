"""Environments, episodes and turns as REST documents."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.accounts.documents import MAX_ID, Choice, Number, Strict, Text, Whole, Yes
from apps.accounts.listing import Paged, Query
from apps.accounts.models import Project
from apps.environments.json_schemas import BadSchema, require_schema
from apps.environments.models import MAX_REWARD_S, NAME, Environment, Episode, any_text
from apps.environments.observations import MAX_OBSERVATION_LENGTH, ROLES

MAX_TURNS = 1_000
MAX_PARALLEL = 10_000
MAX_SECONDS = 86_400.0
MAX_WAIT_S = 60.0
USUAL_WAIT_S = 30.0
MAX_REWARDS = 1_000
MAX_REWARD = 1e12
MAX_NUMBER = 2**31 - 1
# Kinds that users register; the others are built in.
REGISTERED = (
    "push",
    "http",
    "openenv",
    "gymnasium",
    "verifiers",
)
WHERE = (
    "Address of the environment; for Gymnasium and verifiers, its name there. Null for kinds that "
    "rftweb does not call."
)
FINAL = (
    "No further reward will come for the episode: its reward is complete as soon as it ends, "
    "without waiting for `reward_s`."
)


class Object(serializers.DictField):
    """A JSON object, of whatever."""


class JsonSchema(Object):
    """A JSON Schema of draft 2020-12."""

    def to_internal_value(self, data: Any) -> dict:
        schema = super().to_internal_value(data)
        try:
            require_schema(schema)
        except BadSchema as error:
            raise serializers.ValidationError(str(error)) from None
        return schema


class EnvironmentChanges(Strict):
    """Fields of an environment that may be changed at any time.

    Open episodes keep their turn limit.
    """

    version = Text(
        max_length=40, required=False, help_text="Your metadata; shown with its episodes."
    )
    title = Text(max_length=200, required=False, allow_blank=True)
    description = Text(max_length=20_000, required=False, allow_blank=True, trim_whitespace=False)
    observation_schema = JsonSchema(
        required=False, help_text="JSON Schema of its observations, for people and agents."
    )
    action_schema = JsonSchema(required=False, help_text="JSON Schema of its actions.")
    reward_low = Number(
        required=False,
        min_value=-MAX_REWARD,
        max_value=MAX_REWARD,
        help_text="Minimum reward of one action.",
    )
    reward_high = Number(
        required=False,
        min_value=-MAX_REWARD,
        max_value=MAX_REWARD,
        help_text="Maximum reward of one action.",
    )
    turn_limit = Whole(
        required=False,
        min_value=1,
        max_value=MAX_TURNS,
        help_text="Maximum number of actions in an episode.",
    )
    turn_s = Number(
        required=False,
        min_value=0.1,
        max_value=MAX_SECONDS,
        help_text="Time limit for one response, in seconds.",
    )
    person_s = Number(
        required=False,
        min_value=0.1,
        max_value=MAX_SECONDS,
        help_text=(
            "Time limit for one response of a person who plays on its page, in seconds, in place "
            "of `turn_s` and `episode_s`."
        ),
    )
    episode_s = Number(
        required=False,
        min_value=0.1,
        max_value=MAX_SECONDS,
        help_text="Time limit for one episode, in seconds.",
    )
    reward_s = Number(
        required=False,
        min_value=0,
        max_value=MAX_REWARD_S,
        help_text=(
            "How long after the end of an episode its rewards may arrive, in seconds; 0 (default): "
            "rewards are complete at the end."
        ),
    )
    parallel = Whole(
        required=False,
        min_value=1,
        max_value=MAX_PARALLEL,
        help_text="Maximum number of episodes at a time.",
    )
    options = Object(
        required=False,
        help_text="Options for each episode; those of the run and of the task take precedence.",
    )
    address = Text(max_length=500, required=False, allow_blank=True, help_text=WHERE)

    def validate(self, attrs: dict) -> dict:
        instance = self.instance
        low = attrs.get("reward_low", instance.reward_low if instance else 0.0)
        high = attrs.get("reward_high", instance.reward_high if instance else 1.0)
        if low > high:
            raise serializers.ValidationError({"reward_high": [f"Is below reward_low, {low:g}."]})
        return attrs


class NewEnvironment(EnvironmentChanges):
    """An environment that calls rftweb, or that rftweb calls."""

    name = Text(
        max_length=60,
        validators=[NAME],
        help_text="Name of the environment in addresses and in configurations of runs.",
    )
    project = Text(
        max_length=50,
        required=False,
        help_text="Slug of the project; optional if there is only one that you run.",
    )
    kind = Choice(
        [(kind, Environment.Kind(kind).label) for kind in REGISTERED],
        default="push",
        help_text="Programs of kind `push` call rftweb; rftweb calls the others.",
    )
    address = Text(max_length=500, default="", allow_blank=True, help_text=WHERE)


class EnvironmentDocument(serializers.ModelSerializer):
    """An environment."""

    project = serializers.SlugRelatedField[Project]("slug", read_only=True)
    observation_schema = serializers.DictField(read_only=True)
    action_schema = serializers.DictField(read_only=True)
    options = serializers.DictField(read_only=True)

    class Meta:
        model = Environment
        fields = (
            "id",
            "project",
            "name",
            "version",
            "kind",
            "title",
            "description",
            "observation_schema",
            "action_schema",
            "reward_low",
            "reward_high",
            "turn_limit",
            "turn_s",
            "person_s",
            "episode_s",
            "reward_s",
            "parallel",
            "address",
            "options",
            "failures",
            "open_until",
            "open_reason",
            "created_at",
        )


class EnvironmentQuery(Paged):
    project = serializers.SlugField(required=False, max_length=50)
    kind = Choice(Environment.Kind.choices, required=False)


class ProjectQuery(Query):
    project = serializers.SlugField(
        required=False,
        max_length=50,
        help_text="Required if several projects have one of this name.",
    )


class NewEpisode(Strict):
    """Which waiting episode to take; by default, any of the environment."""

    project = Text(
        max_length=50,
        required=False,
        help_text="Required if several projects have an environment of this name.",
    )
    run = Whole(
        required=False,
        allow_null=True,
        default=None,
        min_value=1,
        max_value=MAX_ID,
        help_text="Only episodes of this run.",
    )
    outside = Yes(
        required=False,
        default=False,
        help_text="Include episodes played by an OpenEnv client, which have no run and no task.",
    )
    key = Text(
        required=False,
        help_text="Your own name for the episode: with the same name you get the same episode.",
        max_length=200,
        allow_blank=True,
        default="",
    )


class EpisodeTask(serializers.Serializer):
    """The task of an episode."""

    index = serializers.IntegerField(help_text="Index in the taskset.")
    prompt = serializers.ListField(
        child=serializers.DictField(), help_text="Chat messages that the policy sees first."
    )
    answer = serializers.JSONField(
        allow_null=True, help_text="The taskset's reference answer, for your scoring."
    )


class EpisodeDocument(serializers.ModelSerializer):
    """One attempt at a task."""

    environment = serializers.SlugRelatedField[Environment]("name", read_only=True)
    project = serializers.CharField(source="environment.project.slug", read_only=True)
    options = serializers.DictField(read_only=True)
    task = serializers.SerializerMethodField()
    next = serializers.IntegerField(
        source="turns", read_only=True, help_text="The number of the next observation."
    )

    class Meta:
        model = Episode
        fields = (
            "id",
            "environment",
            "project",
            "run",
            "rollout",
            "key",
            "seed",
            "options",
            "task",
            "turn_limit",
            "state",
            "reason",
            "next",
            "opened_at",
            "begun_at",
            "closed_at",
            "reward_s",
            "reward_until",
        )

    @extend_schema_field(EpisodeTask(allow_null=True))
    def get_task(self, episode: Episode) -> dict | None:
        if episode.rollout is None:
            return None
        task = episode.rollout.group.task
        return {"index": task.index, "prompt": task.prompt, "answer": task.answer}


def observation_form() -> dict:
    """Return the schema of observations: `any_text`, with parts in user messages for pictures."""
    form = any_text()
    text = {
        "type": "object",
        "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
        "required": ["type", "text"],
    }
    address = {
        "type": "object",
        "properties": {"url": {"type": "string", "description": "data:image/png;base64,…"}},
    }
    picture = {
        "type": "object",
        "properties": {
            "type": {"const": "image_url"},
            "image_url": {**address, "required": ["url"]},
        },
        "required": ["type", "image_url"],
    }
    parts = {"type": "array", "items": {"anyOf": [text, picture]}}
    form["anyOf"][1]["items"]["properties"]["content"] = {"anyOf": [{"type": "string"}, parts]}
    return form


@extend_schema_field(observation_form())
class Said(serializers.Field):
    """A text, or chat messages; `apps.environments.observations` checks it."""

    def to_internal_value(self, data: Any) -> Any:
        return data

    def to_representation(self, value: Any) -> Any:
        return value


class Turn(Strict):
    """The policy's next observation, and the reward of its last action."""

    observation = Said(
        help_text=(
            f"Text, or messages of `role` ({', '.join(ROLES)}) and `content`; at most "
            f"{MAX_OBSERVATION_LENGTH} characters."
        )
    )
    number = Whole(
        required=False,
        allow_null=True,
        default=None,
        min_value=0,
        max_value=MAX_NUMBER,
        help_text=(
            "Number of the observation, from 0; the next one if omitted. Repeating a number has no "
            "further effect."
        ),
    )
    reward = Number(
        required=False,
        allow_null=True,
        default=None,
        help_text="Reward of the last action; null if unknown or not known yet.",
    )
    done = Yes(required=False, default=False, help_text="The episode ends with this observation.")
    info = Object(required=False, default=dict, help_text="For people; the policy never sees it.")


class NewTurn(Turn):
    """The next turn of an episode."""

    timeout_s = Number(
        required=False,
        default=USUAL_WAIT_S,
        min_value=0,
        max_value=MAX_WAIT_S,
        help_text="How long to wait for the action.",
    )


class TurnDocument(serializers.Serializer):
    """The state of a turn."""

    episode = serializers.IntegerField()
    number = serializers.IntegerField()
    state = serializers.ChoiceField(Episode.State.choices, help_text="State of the episode.")
    reason = serializers.CharField(help_text="Why the episode ended.")
    action = serializers.CharField(
        allow_null=True, help_text="The policy's action; null until it has acted."
    )
    tokens = serializers.IntegerField(help_text="Number of tokens of the action.")
    next = serializers.IntegerField(help_text="The number of the observation that follows it.")


class Ends(Strict):
    """The end of an episode."""

    outcome = Choice(
        ["done", "failed", "abandoned"],
        default="done",
        help_text="`failed`: the environment failed. The action then gets no reward, not 0.",
    )
    reward = Number(
        required=False, allow_null=True, default=None, help_text="Reward of the last action."
    )
    reason = Text(required=False, default="", allow_blank=True, max_length=300)
    final = Yes(required=False, default=False, help_text=FINAL)


class EarnedReward(Strict):
    """The reward of an action of an episode."""

    turn = Whole(
        required=False,
        allow_null=True,
        default=None,
        min_value=0,
        max_value=MAX_NUMBER,
        help_text="The last one if omitted.",
    )
    reward = Number()
    final = Yes(required=False, default=False, help_text=FINAL)


class NewReward(EarnedReward):
    """The reward of an action."""

    episode = Whole(min_value=1, max_value=MAX_ID)


class NewRewards(Strict):
    rewards = serializers.ListField(
        child=serializers.JSONField(allow_null=True), min_length=1, max_length=MAX_REWARDS
    )


class NewRewardsShape(serializers.Serializer):
    """Rewards, each checked by itself."""

    rewards = serializers.ListField(child=NewReward(), min_length=1, max_length=MAX_REWARDS)


class RewardResult(serializers.Serializer):
    """The result of one reward."""

    status = serializers.IntegerField(help_text="201 stored, now or earlier; 404, 409, 422.")
    episode = serializers.IntegerField(allow_null=True)
    turn = serializers.IntegerField(allow_null=True)
    is_late = serializers.BooleanField(
        help_text="The rollout already had its reward: stored, but not trained on."
    )
    detail = serializers.CharField(allow_blank=True)


class RewardResults(serializers.Serializer):
    results = RewardResult(many=True)
