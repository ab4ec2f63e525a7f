"""Count what is drawn in a colour: "How many red circles are there?" """

import random
from collections.abc import Iterator

from apps.tasksets.generators.seen import (
    COLOURS,
    SHAPES,
    blank,
    build_picture_task,
    distinct,
    draw_shape,
    place_squares,
)
from apps.tasksets.rows import TaskRow

SIDE = 96  # pixels
MIN_THINGS = 3
MAX_THINGS = 9  # things in a picture
SIDES = (12, 20)


def generate(size: int, seed: int) -> Iterator[TaskRow]:
    """Yield different pictures; the answer is {"count": how many there are}."""
    return distinct(size, seed, _draw)


def _draw(draw: random.Random) -> TaskRow:
    image, pen = blank(SIDE, SIDE)
    colour = draw.choice(list(COLOURS))
    shape = draw.choice(SHAPES)
    other_kinds = [
        (other_colour, other_shape)
        for other_colour in COLOURS
        for other_shape in SHAPES
        if (other_colour, other_shape) != (colour, shape)
    ]
    # Half of the others share colour or shape with what is asked for: to know one of both is not
    # enough.
    similar_kinds = [
        (other_colour, other_shape)
        for other_colour, other_shape in other_kinds
        if other_colour == colour or other_shape == shape
    ]
    boxes = place_squares(draw, draw.randint(MIN_THINGS, MAX_THINGS), SIDES, SIDE, SIDE)
    count = draw.randint(0, len(boxes))
    for place, box in enumerate(boxes):
        kind = (
            (colour, shape)
            if place < count
            else draw.choice(similar_kinds if draw.random() < 0.5 else other_kinds)
        )
        draw_shape(pen, kind[1], box, kind[0])
    question = f"How many {colour} {shape}s are there? Answer with a number."
    return build_picture_task(
        image,
        question,
        {"count": count},
        "counting",
        {"colour": colour, "shape": shape, "things": len(boxes)},
    )
