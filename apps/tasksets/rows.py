"""One task before it is a database row, as generators make and imports read it."""

import random
from dataclasses import dataclass, field
from typing import Any

from apps.tasksets.messages import Content
from apps.tasksets.pictures import EncodedPicture


@dataclass(frozen=True)
class TaskRow:
    """Task as chat messages {"role", "content"}, with the `answer` that scorers judge by.

    `follow_ups`: what the user says after each answer of the policy; none in a task of one
    question. `pictures`: those that the prompt shows. `domain`: the field it is from, by which a
    run's scorers are chosen. `line`: where an imported file has it, from 1; `parent`: id of the
    task that it was made of. Both are no part of the task.
    """

    prompt: list[dict[str, Content]]
    answer: dict[str, Any] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)
    follow_ups: list[str] = field(default_factory=list)
    pictures: tuple[EncodedPicture, ...] = ()
    domain: str = ""
    line: int = field(default=0, compare=False)
    parent: int | None = field(default=None, compare=False)


def user_message(text: str) -> list[dict[str, Content]]:
    """Return a prompt of one message of the user."""
    return [{"role": "user", "content": text}]


def said_alone(row: TaskRow) -> str:
    """Return the text of a prompt that says one thing and shows nothing.

    "" of any other, and of a dialogue's.
    """
    alone = len(row.prompt) == 1 and not row.follow_ups and row.prompt[0]["role"] == "user"
    question = row.prompt[0]["content"] if alone else ""
    return question if isinstance(question, str) else ""


def draw_distinct(space: int, size: int, seed: int) -> list[int]:
    """Return `size` different numbers below `space`, the same for the same seed.

    Raises ValueError when there are too few.
    """
    if not 0 < size <= space:
        raise ValueError(
            f"size must be from 1 to {space} (as many different tasks as there are), not {size}"
        )
    return random.Random(seed).sample(range(space), size)
