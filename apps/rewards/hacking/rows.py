"""Inputs and findings of the detectors, in plain data."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

EVIDENCE = 200  # replies and tasks that a finding names at most, the newest


@dataclass(frozen=True)
class Row:
    """One reply with its rewards.

    `step` is the update that it was drawn for, `machine` the machines' reward as a share of the
    full one, and `people` the reward by people. They are None where there is none.
    """

    rollout: int
    step: int
    task: int
    group: int = 0
    text: str = ""
    tokens: int = 0
    machine: float | None = None
    people: float | None = None
    values: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskContent:
    """Task as the policy reads it, and its fields that are hidden from the policy."""

    prompt: str = ""
    answer: Mapping[str, Any] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GuessSuccess:
    """Success at a task of a policy that has no room to think: right answers among its tries."""

    right: int
    tries: int


@dataclass(frozen=True)
class JudgedReplies:
    """Replies of a run, oldest first, with their tasks and facts about its scorers.

    - `right_by`: the scorers that judge content, not format.
    - `highs`: the highest value of each scorer.
    - `rubric`: the texts by which judges mark.
    - `guesses`: success without thinking, by task.
    """

    rows: Sequence[Row]
    tasks: Mapping[int, TaskContent] = field(default_factory=dict)
    right_by: Sequence[str] = ()
    highs: Mapping[str, float] = field(default_factory=dict)
    rubric: Sequence[str] = ()
    guesses: Mapping[int, GuessSuccess] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """Finding of a detector, in words for people, with numbers and means of the updates."""

    words: str
    metrics: Mapping[str, float]
    series: Mapping[str, Sequence[tuple[int, float]]] = field(default_factory=dict)
    rollouts: Sequence[int] = ()
    tasks: Sequence[int] = ()


def by_step(rows: Sequence[Row], value: Callable[[Row], float | None]) -> list[tuple[int, float]]:
    """Return the mean of each update's replies that have the value, in order."""
    values_by_step: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        if (number := value(row)) is not None:
            values_by_step[row.step].append(number)
    return [(step, sum(numbers) / len(numbers)) for step, numbers in sorted(values_by_step.items())]


def newest_ids(ids: Sequence[int]) -> list[int]:
    """Return the newest ids, each once."""
    return list(dict.fromkeys(ids))[-EVIDENCE:]
