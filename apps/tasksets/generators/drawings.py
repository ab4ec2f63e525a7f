"""Draw again what is seen, as SVG: a few shapes in plain colours on white."""

import random
from collections.abc import Iterator

from apps.tasksets.generators.seen import (
    COLOURS,
    blank,
    build_picture_task,
    distinct,
    draw_shape,
    place_squares,
)
from apps.tasksets.rows import TaskRow

SIDE = 64  # pixels
MAX_SHAPES = 3  # shapes in a picture
SIDES = (14, 26)
SHAPES = ("circle", "square", "triangle")
QUESTION = 'Draw this picture as SVG, with viewBox="0 0 64 64" on white.'


def generate(size: int, seed: int) -> Iterator[TaskRow]:
    """Yield different pictures; the answer is {"svg": markup that draws the picture}."""
    return distinct(size, seed, _draw)


def _draw(draw: random.Random) -> TaskRow:
    image, pen = blank(SIDE, SIDE)
    marks = []
    for box in place_squares(draw, draw.randint(1, MAX_SHAPES), SIDES, SIDE, SIDE):
        shape = draw.choice(SHAPES)
        colour = draw.choice(list(COLOURS))
        draw_shape(pen, shape, box, colour)
        marks.append(_mark(shape, box, "#{:02x}{:02x}{:02x}".format(*COLOURS[colour])))
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIDE}'
        f' {SIDE}">{"".join(marks)}</svg>'
    )
    return build_picture_task(image, QUESTION, {"svg": svg}, "svg", {"shapes": len(marks)})


def _mark(shape: str, box: tuple[int, int, int, int], fill: str) -> str:
    """Return the shape in SVG; the ends of the box belong to it."""
    x = box[0]
    y = box[1]
    right = box[2] + 1
    bottom = box[3] + 1
    side = right - x
    if shape == "circle":
        return (
            f'<circle cx="{x + side / 2:g}" cy="{y + side / 2:g}" r="{side / 2:g}" fill="{fill}"/>'
        )
    if shape == "square":
        return f'<rect x="{x}" y="{y}" width="{side}" height="{side}" fill="{fill}"/>'
    return f'<polygon points="{x + side / 2:g},{y} {right},{bottom} {x},{bottom}" fill="{fill}"/>'
