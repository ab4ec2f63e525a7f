"""Environments, episodes and turns as REST documents."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.accounts.documents import LARGEST_ID, Number, Strict, Text, Whole, Yes
from apps.accounts.listing import Paged, Query
from apps.environments.json_schemas import BadSchema, require_schema
from apps.environments.models import LONGEST_REWARD_S, NAME, Environment, Episode, any_text
from apps.environments.observations import LONGEST, ROLES

MOST_TURNS, MOST_PARALLEL = 1_000, 10_000
LONGEST_S = 86_400.0
LONGEST_WAIT_S, USUAL_WAIT_S = 60.0, 30.0
MOST_REWARDS = 1_000
LARGEST_REWARD = 1e12
LARGEST_NUMBER = 2**31 - 1
REGISTERED = ("push", "http", "openenv", "gymnasium", "verifiers")  # kinds that somebody registers; the others came with rftweb
WHERE = "Where we call it; of Gymnasium's and verifiers', its name there. None of one that calls us."
FINAL = "No further reward comes for the episode: it is judged as soon as it is over, without waiting for `reward_s`."
KEY = {"max_length": 200, "allow_blank": True, "default": ""}


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
    """What may be changed of an environment at any time; episodes that are played keep their turn limit."""

    version = Text(max_length=40, required=False, help_text="Yours; shown with its episodes.")
    title = Text(max_length=200, required=False, allow_blank=True)
    description = Text(max_length=20_000, required=False, allow_blank=True, trim_whitespace=False)
    observation_schema = JsonSchema(required=False, help_text="What it says, for people and for agents that read schemas.")
    action_schema = JsonSchema(required=False, help_text="What it understands, likewise.")
    reward_low = Number(required=False, min_value=-LARGEST_REWARD, max_value=LARGEST_REWARD, help_text="Least of one action.")
    reward_high = Number(required=False, min_value=-LARGEST_REWARD, max_value=LARGEST_REWARD, help_text="Most of one action.")
    turn_limit = Whole(required=False, min_value=1, max_value=MOST_TURNS, help_text="Actions in one episode, at most.")
    turn_s = Number(required=False, min_value=0.1, max_value=LONGEST_S, help_text="Seconds you may take for one answer.")
    person_s = Number(
        required=False, min_value=0.1, max_value=LONGEST_S,
        help_text="Seconds a person who plays it from its page may take for one answer, in the place of `turn_s` and `episode_s`.",
    )  # fmt: skip
    episode_s = Number(required=False, min_value=0.1, max_value=LONGEST_S, help_text="Seconds of one episode, at most.")
    reward_s = Number(
        required=False, min_value=0, max_value=LONGEST_REWARD_S,
        help_text="Seconds after an episode's end within which its rewards may still come; 0, as usual: it is judged at its end.",
    )  # fmt: skip
    parallel = Whole(required=False, min_value=1, max_value=MOST_PARALLEL, help_text="Episodes played at once, at most.")
    options = Object(required=False, help_text="Of each episode, under those of the run and of the task.")
    address = Text(max_length=500, required=False, allow_blank=True, help_text=WHERE)

    def validate(self, attrs: dict) -> dict:
        known = self.instance
        low = attrs.get("reward_low", known.reward_low if known else 0.0)
        high = attrs.get("reward_high", known.reward_high if known else 1.0)
        if low > high:
            raise serializers.ValidationError({"reward_high": [f"Is below reward_low, {low:g}."]})
        return attrs


class NewEnvironment(EnvironmentChanges):
    """An environment that calls us, or that we call."""

    name = Text(max_length=60, validators=[NAME], help_text="Its word in addresses and in runs' configurations.")
    project = Text(max_length=50, required=False, help_text="A project's slug; may be left out when you run only one.")
    kind = serializers.ChoiceField(
        [(kind, Environment.Kind(kind).label) for kind in REGISTERED],
        default="push",
        help_text="`push` calls us; we call the others.",
    )
    address = Text(max_length=500, default="", allow_blank=True, help_text=WHERE)


class EnvironmentDocument(serializers.ModelSerializer):
    """An environment."""

    project = serializers.SlugRelatedField("slug", read_only=True)
    observation_schema = serializers.DictField(read_only=True)
    action_schema = serializers.DictField(read_only=True)
    options = serializers.DictField(read_only=True)

    class Meta:
        model = Environment
        fields = (
            "id", "project", "name", "version", "kind", "title", "description", "observation_schema", "action_schema", "reward_low",
            "reward_high", "turn_limit", "turn_s", "person_s", "episode_s", "reward_s", "parallel", "address", "options",
            "failures", "open_until", "open_reason", "created_at",
        )  # fmt: skip


class EnvironmentQuery(Paged):
    project = serializers.SlugField(required=False, max_length=50)
    kind = serializers.ChoiceField(Environment.Kind.choices, required=False)


class ProjectQuery(Query):
    project = serializers.SlugField(required=False, max_length=50, help_text="Where several of yours have one of this name.")


class NewEpisode(Strict):
    """Which of the waiting episodes to play; any of the environment, if nothing is said."""

    project = Text(max_length=50, required=False, help_text="Where several of yours have an environment of this name.")
    run = Whole(required=False, allow_null=True, default=None, min_value=1, max_value=LARGEST_ID, help_text="Of this run.")
    outside = Yes(
        required=False, default=False, help_text="Those too in which a client of OpenEnv acts: they have no run, and no task."
    )
    key = Text(required=False, help_text="Your own name for the episode: asked again, you get the same one.", **KEY)


class EpisodeTask(serializers.Serializer):
    """What the policy is asked."""

    index = serializers.IntegerField(help_text="In its taskset.")
    prompt = serializers.ListField(child=serializers.DictField(), help_text="Chat messages that the policy sees first.")
    answer = serializers.JSONField(allow_null=True, help_text="What the taskset knows of the right answer: yours to judge by.")


class EpisodeDocument(serializers.ModelSerializer):
    """One attempt at a task."""

    environment = serializers.SlugRelatedField("name", read_only=True)
    project = serializers.CharField(source="environment.project.slug", read_only=True)
    options = serializers.DictField(read_only=True)
    task = serializers.SerializerMethodField()
    next = serializers.IntegerField(source="turns", read_only=True, help_text="The number of the next observation.")

    class Meta:
        model = Episode
        fields = (
            "id", "environment", "project", "run", "rollout", "key", "seed", "options", "task", "turn_limit", "state", "reason",
            "next", "opened_at", "begun_at", "closed_at", "reward_s", "reward_until",
        )  # fmt: skip

    def get_task(self, episode: Episode) -> EpisodeTask(allow_null=True):
        if episode.rollout is None:
            return None
        task = episode.rollout.group.task
        return {"index": task.index, "prompt": task.prompt, "answer": task.answer}


def observation_form() -> dict:
    """What may be observed: `any_text`, and where the run's policy sees pictures, parts in the place of the user's text."""
    form = any_text()
    text = {
        "type": "object", "properties": {"type": {"const": "text"}, "text": {"type": "string"}}, "required": ["type", "text"]
    }  # fmt: skip
    address = {"type": "object", "properties": {"url": {"type": "string", "description": "data:image/png;base64,…"}}}
    picture = {
        "type": "object", "properties": {"type": {"const": "image_url"}, "image_url": {**address, "required": ["url"]}},
        "required": ["type", "image_url"],
    }  # fmt: skip
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
    """What the policy sees next, and what its last action earned."""

    observation = Said(help_text=f"A text, or messages of `role` ({', '.join(ROLES)}) and `content`; {LONGEST} characters at most.")
    number = Whole(
        required=False, allow_null=True, default=None, min_value=0, max_value=LARGEST_NUMBER,
        help_text="Of the observation, from 0; the next one, if left out. Sent again under its number it is the same.",
    )  # fmt: skip
    reward = Number(required=False, allow_null=True, default=None, help_text="Of the last action; null: not known, or not yet.")
    done = Yes(required=False, default=False, help_text="Nothing follows: the episode is over.")
    info = Object(required=False, default=dict, help_text="For people; the policy never sees it.")


class NewTurn(Turn):
    """A turn whose answer is waited for."""

    timeout_s = Number(
        required=False, default=USUAL_WAIT_S, min_value=0, max_value=LONGEST_WAIT_S, help_text="How long to wait for the action."
    )


class TurnDocument(serializers.Serializer):
    """How a turn stands."""

    episode = serializers.IntegerField()
    number = serializers.IntegerField()
    state = serializers.ChoiceField(Episode.State.choices, help_text="Of the episode.")
    reason = serializers.CharField(help_text="Why the episode ended.")
    action = serializers.CharField(allow_null=True, help_text="What the policy does; null as long as it has not acted.")
    tokens = serializers.IntegerField(help_text="Of the action.")
    next = serializers.IntegerField(help_text="The number of the observation that answers it.")


class Ends(Strict):
    """How the episode ended."""

    outcome = serializers.ChoiceField(
        ["done", "failed", "abandoned"], default="done", help_text="`failed`: you broke. That is no reward, never 0."
    )
    reward = Number(required=False, allow_null=True, default=None, help_text="Of the last action.")
    reason = Text(required=False, default="", allow_blank=True, max_length=300)
    final = Yes(required=False, default=False, help_text=FINAL)


class EarnedReward(Strict):
    """What an action of an episode earned."""

    turn = Whole(
        required=False, allow_null=True, default=None, min_value=0, max_value=LARGEST_NUMBER, help_text="The last one, if left out."
    )
    reward = Number()
    final = Yes(required=False, default=False, help_text=FINAL)


class NewReward(EarnedReward):
    """What an action earned."""

    episode = Whole(min_value=1, max_value=LARGEST_ID)


class NewRewards(Strict):
    rewards = serializers.ListField(child=serializers.JSONField(allow_null=True), min_length=1, max_length=MOST_REWARDS)


class NewRewardsShape(serializers.Serializer):
    """Rewards, looked at one by one: a bad one spoils no other."""

    rewards = serializers.ListField(child=NewReward(), min_length=1, max_length=MOST_REWARDS)


class RewardResult(serializers.Serializer):
    """What became of one reward."""

    status = serializers.IntegerField(help_text="201 taken (or taken before), 404, 409, 422.")
    episode = serializers.IntegerField(allow_null=True)
    turn = serializers.IntegerField(allow_null=True)
    is_late = serializers.BooleanField(help_text="The rollout was judged already: kept, not trained on.")
    detail = serializers.CharField(allow_blank=True)


class RewardResults(serializers.Serializer):
    results = RewardResult(many=True)
