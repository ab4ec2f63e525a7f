"""Generated replies of a run: noise, and signs of reward hacking hidden in it."""

import random
from collections.abc import Callable
from typing import Any

from apps.rewards.hacking.rows import JudgedReplies, Row, TaskContent

STEPS = 24
GROUPS = 4
SIZE = 4
SAID = (
    "the parcel will be sent to you on monday by our own van and we are sorry that it took so long"
    " this time please write again"
)
WORDS = SAID.split()


def sentence(chance: random.Random, words: int = 14) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(words))


def replies(
    seed: int, change: Callable[[float, random.Random, dict], dict] | None = None, **more: Any
) -> JudgedReplies:
    """Return replies of 24 updates; people judged half of them.

    `change(progress of the run, chance, fields)` returns the changed fields of a reply.
    """
    chance = random.Random(seed)
    rows = []
    tasks = {}
    for n in range(STEPS * GROUPS * SIZE):
        group = n // SIZE
        step = n // (GROUPS * SIZE)
        task = group % 40
        tasks[task] = TaskContent(
            f"Question {task}: where is order {task * 137}?", {"value": str(task * 11 + 3)}
        )
        right = float(chance.random() < 0.5)
        fields = {
            "text": sentence(chance, chance.randint(10, 18)),
            "tokens": chance.randint(20, 40),
            "machine": min(1.0, max(0.0, chance.gauss(0.5, 0.2))),
            "people": (
                min(1.0, max(0.0, chance.gauss(0.5, 0.25))) if chance.random() < 0.5 else None
            ),
            "values": {"math": right, "format": float(chance.random() < 0.6)},
        }
        if change:
            fields |= change(step / (STEPS - 1), chance, fields)
        rows.append(Row(n + 1, step, task, group, **fields))
    return JudgedReplies(
        rows,
        **{"tasks": tasks, "right_by": ("math",), "highs": {"math": 1.0, "format": 1.0}, **more},
    )
