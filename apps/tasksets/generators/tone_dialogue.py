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
        follow_ups = [
            follow_up
            for follow_up in draw.sample(openings, min(size, 8))
            if follow_up.answer != row.answer
        ][: draw.choice(MORE)]
        messages = [said_alone(follow_up) for follow_up in follow_ups]
        objects = [row.answer["object"], *(follow_up.answer["object"] for follow_up in follow_ups)]
        yield TaskRow(row.prompt, {"objects": objects}, row.meta, messages)
