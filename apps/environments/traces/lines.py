"""The fields of an Episode's line that are read here; all others are ignored."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

Token = int


class Part(BaseModel):
    """The base of models: unknown fields are ignored, known ones have exactly their type."""

    model_config = ConfigDict(strict=True, extra="ignore")


class TextPart(Part):
    type: Literal["text"]
    text: str


class ImageUrl(Part):
    url: str = Field(pattern=r"^data:image/png;base64,")


class ImagePart(Part):
    type: Literal["image_url"]
    image_url: ImageUrl


class Message(Part):
    role: Literal["system", "user", "assistant", "tool"]
    content: str | list[TextPart | ImagePart] | None = None


class Node(Part):
    parent: int | None = None
    message: Message
    sampled: bool = False
    token_ids: list[int] = []
    mask: list[bool] = []
    logprobs: list[float] = []


class Reward(Part):
    score: float
    weight: float = 1.0


class Error(Part):
    message: str


class Sampling(Part):
    temperature: float | None = None
    max_tokens: int | None = None


class AgentConfig(Part):
    sampling: Sampling | None = None
    max_turns: int | None = None


class Agent(Part):
    config: AgentConfig
    trainable: bool = True


class Call(Part):
    node: int | None = None
    finish_reason: str | None = None


class Span(Part):
    start: float = 0.0
    end: float = 0.0


class Timing(Part):
    start: float = 0.0
    agent: Span = Span()


class OurTurn(Part):
    model_config = ConfigDict(strict=True, extra="forbid")

    observation: str | list[dict[str, JsonValue]]
    done: bool
    info: dict[str, JsonValue]
    tools: list[dict[str, JsonValue]]
    reward: float | None
    late_reward: float | None
    reason: str = Field(max_length=300)
    acted: bool


class PicturePosition(Part):
    """The position of a picture: its name, and its tokens among all of the trace's."""

    model_config = ConfigDict(strict=True, extra="forbid")

    picture: str
    first: int = Field(ge=0, lt=2**31)
    past: int = Field(ge=0, lt=2**31)


class OwnData(Part):
    """Our own data of an episode under `info.rftweb`."""

    model_config = ConfigDict(strict=True, extra="forbid")

    tokenizer: str
    seed: int = Field(ge=-(2**63), lt=2**63)
    options: dict[str, JsonValue]
    state: Literal["done", "failed", "abandoned"]
    stop_reason: str = Field(max_length=200)
    sample: int = Field(ge=0, lt=2**15)
    versions: list[list[int]]
    pictures: list[PicturePosition] = []
    turns: list[OurTurn]
    # Set by retention: the tokens are not in the file.
    arrays_released_at: str = Field("", max_length=40)


class Info(Part):
    rftweb: OwnData | None = None


class Trace(Part):
    version: Literal[1] = 1
    agent: Agent
    nodes: list[Node]
    calls: list[Call] = []
    rewards: dict[str, Reward | None] = {}
    info: Info = Info()
    ok: bool = False
    stop_condition: str | None = Field(None, max_length=300)
    timing: Timing = Timing()


class Data(Part):
    idx: int | None = Field(None, ge=0, lt=2**31)
    prompt: str | list[Message] | None = None
    system_prompt: str | None = None
    answer: JsonValue = None
    meta: dict[str, JsonValue] = {}
    taskset: str | None = None


class Task(Part):
    data: Data


class Named(Part):
    id: str


class Episode(Part):
    id: str = Field(min_length=1, max_length=200)
    env: Named
    task: Task
    group: Named | None = None
    run: dict[str, JsonValue] | None = None
    ok: bool = False
    errors: list[Error] = []
    traces: list[Trace]
