"""Say where something is: the box around the one thing of that colour and shape."""

import random
from collections.abc import Iterator

from PIL import ImageChops

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

SIDE = 112  # pixels
MIN_THINGS = 2
MAX_THINGS = 5  # things in a picture
SIDES = (18, 40)


def generate(size: int, seed: int) -> Iterator[TaskRow]:
    """Yield different pictures.

    The answer is {"box": [x0, y0, x1, y1] in pixels, "width": …, "height": … of the picture}.
    """
    return distinct(size, seed, _draw)


def _draw(draw: random.Random) -> TaskRow:
    image, pen = blank(SIDE, SIDE)
    boxes = place_squares(draw, draw.randint(MIN_THINGS, MAX_THINGS), SIDES, SIDE, SIDE)
    kinds = draw.sample([(colour, shape) for colour in COLOURS for shape in SHAPES], len(boxes))
    colour, shape = kinds[0]
    draw_shape(pen, shape, boxes[0], colour)
    box = ImageChops.difference(
        image, blank(SIDE, SIDE)[0]
    ).getbbox()  # of its ink: a star does not fill its square
    assert box is not None  # something was drawn
    for (other_colour, other_shape), place in zip(kinds[1:], boxes[1:], strict=True):
        draw_shape(pen, other_shape, place, other_colour)
    question = (
        f"Where is the {colour} {shape}? The picture is {SIDE} pixels wide and {SIDE} high; (0, 0)"
        " is at the top left. Answer with its box as [x0, y0, x1, y1]."
    )
    answer = {"box": list(box), "width": SIDE, "height": SIDE}
    return build_picture_task(
        image,
        question,
        answer,
        "grounding",
        {"colour": colour, "shape": shape, "things": len(boxes)},
    )
