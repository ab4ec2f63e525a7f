"""What detectors look at, in plain data, and what they find."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

EVIDENCE = 200  # replies and tasks that a finding names at most, the newest


@dataclass(frozen=True)
class Row:
    """One reply. `step`: the update it was drawn for; `machine`: the machines' reward as a share of the full one; `people`: theirs.

    None where there is none.
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
class Asked:
    """A task: what the policy reads, and what is kept from it."""

    prompt: str = ""
    answer: Mapping[str, Any] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Guessed:
    """How often a policy that may not think got a task right, of so many tries."""

    right: int
    tries: int


@dataclass(frozen=True)
class Seen:
    """Replies of a run, oldest first, their tasks, and what its scorers are.

    `right_by`: scorers that judge what is said, not its shape; `highs`: the most that each scorer gives; `rubric`: texts by which
    judges mark; `guesses`: by task.
    """

    rows: Sequence[Row]
    tasks: Mapping[int, Asked] = field(default_factory=dict)
    right_by: Sequence[str] = ()
    highs: Mapping[str, float] = field(default_factory=dict)
    rubric: Sequence[str] = ()
    guesses: Mapping[int, Guessed] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """`words`: what was seen and why it is suspicious, for people; `figures`: by name; `series`: means of the updates, by name."""

    words: str
    figures: Mapping[str, float]
    series: Mapping[str, Sequence[tuple[int, float]]] = field(default_factory=dict)
    rollouts: Sequence[int] = ()
    tasks: Sequence[int] = ()


def by_step(rows: Sequence[Row], value: Callable[[Row], float | None]) -> list[tuple[int, float]]:
    """The mean of each update's replies that have the value, in order."""
    found: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        if (number := value(row)) is not None:
            found[row.step].append(number)
    return [(step, sum(numbers) / len(numbers)) for step, numbers in sorted(found.items())]


def newest(ids: Sequence[int]) -> list[int]:
    """Each once, the newest that are named."""
    return list(dict.fromkeys(ids))[-EVIDENCE:]
