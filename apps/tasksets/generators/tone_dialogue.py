"""Customers who come back: two or three messages about different objects, each after a reply;
polite replies are wanted.
"""

import random
from collections.abc import Iterator

from apps.tasksets.generators import tone
from apps.tasksets.rows import TaskRow, said_alone

MORE = (1, 2)  # messages after the first


def generate(size: int, seed: int) -> Iterator[TaskRow]:
    """Yield tone's messages, continued.

    The answer is {"objects": what each reply must be about}.
    """
    draw = random.Random(seed)
    openings = list(tone.generate(size, seed))
    for row in openings:
        others = [
            other for other in draw.sample(openings, min(size, 8)) if other.answer != row.answer
        ][: draw.choice(MORE)]
        messages = [said_alone(other) for other in others]
        objects = [row.answer["object"], *(other.answer["object"] for other in others)]
        yield TaskRow(row.prompt, {"objects": objects}, row.meta, messages)
