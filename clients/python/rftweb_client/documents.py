"""Typed documents of requests and responses.

Fields that are newer than this client are ignored.
"""

from dataclasses import dataclass, fields
from typing import Any, TypedDict, TypeVar

Observation = (
    str | list[dict[str, str]]
)  # a text, or chat messages with `role` (user, tool, system) and `content`
Document = TypeVar("Document")


class Settings(TypedDict, total=False):
    """The settings of an environment; the installation has a default for each."""

    version: str
    title: str
    description: str
    observation_schema: dict[str, Any]
    action_schema: dict[str, Any]
    reward_low: float  # of one action
    reward_high: float
    turn_limit: int
    turn_s: float  # seconds you may take for one answer
    person_s: float  # likewise, of a person who plays it from its page
    episode_s: float
    reward_s: float  # after an episode's end, within which its rewards may still come
    parallel: int
    options: dict[str, Any]


@dataclass(frozen=True)
class Environment:
    id: int
    project: str
    name: str
    version: str
    reward_low: float
    reward_high: float
    turn_limit: int
    turn_s: float
    episode_s: float
    reward_s: float
    parallel: int
    open_until: str | None  # its circuit breaker pauses it until then, because of `open_reason`
    open_reason: str


@dataclass(frozen=True)
class Task:
    """A task for the policy.

    `answer` is for your own judging. `options` are those of the environment, the run and the task,
    merged.
    """

    index: int
    prompt: list[dict[str, Any]]
    answer: Any
    options: dict[str, Any]


@dataclass(frozen=True)
class Episode:
    """One attempt at a task.

    `next` is the number of the next observation, `reason` why it ended.
    """

    id: int
    environment: str
    run: int
    key: str
    seed: int
    task: Task
    turn_limit: int
    state: str
    reason: str
    next: int


@dataclass(frozen=True)
class Turn:
    """A turn of the policy.

    `action` is its output; None if the episode has ended, and `state` and `reason` say how.
    """

    episode: int
    number: int
    state: str
    reason: str
    action: str | None
    tokens: int
    next: int


@dataclass(frozen=True)
class Reward:
    """The reward of a turn's action; `turn` None: of the last action.

    `final`: no more rewards come for the episode.
    """

    episode: int
    reward: float
    turn: int | None = None
    final: bool = False


@dataclass(frozen=True)
class RewardResult:
    """The result of sending a reward; `status` 201: accepted, now or before.

    `is_late`: stored but not trained on, because the rollout was judged already.
    """

    status: int
    episode: int | None
    turn: int | None
    is_late: bool
    detail: str


def read_document(kind: type[Document], document: dict[str, Any]) -> Document:
    return kind(**{field.name: document[field.name] for field in fields(kind)})


def read_episode(document: dict[str, Any]) -> Episode:
    task = read_document(Task, {**document["task"], "options": document["options"]})
    return read_document(Episode, {**document, "task": task})
