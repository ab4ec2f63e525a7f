"""Read the value of a bar off a chart with an axis."""

import random
from collections.abc import Iterator

from PIL import Image, ImageDraw

from apps.tasksets.generators.seen import (
    COLOURS,
    INK,
    LINE,
    blank,
    build_picture_task,
    distinct,
    letters,
)
from apps.tasksets.rows import TaskRow

WIDTH = 160
HEIGHT = 120  # pixels
LEFT = 26
TOP = 8
BOTTOM = 102  # where the field of the bars begins and ends
NAMES = "ABCDEF"
TOPS = (10, 20, 50, 100, 200)  # of the axis
TICKS = 5
TOLERANCE = 0.05  # relative, as charts are usually graded


def generate(size: int, seed: int) -> Iterator[TaskRow]:
    """Yield different charts.

    The answer is {"value": what the bar stands for, "tolerance": the relative error that is let
    pass}.
    """
    return distinct(size, seed, _draw)


def _draw(draw: random.Random) -> TaskRow:
    image, pen = blank(WIDTH, HEIGHT)
    top = draw.choice(TOPS)
    names = NAMES[: draw.randint(2, len(NAMES))]
    values = [
        draw.randint(top * 3 // 10, top) for _ in names
    ]  # lower ones cannot be read to the tolerance
    _axis(image, pen, top)
    ink = COLOURS[draw.choice(list(COLOURS))]
    step = (WIDTH - LEFT - 4) // len(names)
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        x = LEFT + 3 + place * step
        pen.rectangle((x, _height_of(value, top), x + step * 2 // 3, BOTTOM), fill=ink)
        label = letters(name)
        image.paste(label, (x + step // 3 - label.width // 2, BOTTOM + 4))
    asked_index = draw.randrange(len(names))
    question = f"What is the value of bar {names[asked_index]}? Answer with a number."
    answer = {"value": values[asked_index], "tolerance": TOLERANCE}
    return build_picture_task(
        image,
        question,
        answer,
        "charts",
        {"bars": dict(zip(names, values, strict=True)), "top": top},
    )


def _height_of(value: int, top: int) -> int:
    return BOTTOM - (BOTTOM - TOP) * value // top


def _axis(image: Image.Image, pen: ImageDraw.ImageDraw, top: int) -> None:
    for tick in range(TICKS + 1):
        value = top * tick // TICKS
        y = _height_of(value, top)
        pen.line((LEFT, y, WIDTH - 2, y), fill=LINE if tick else INK)
        label = letters(str(value))
        image.paste(label, (LEFT - 3 - label.width, y - label.height // 2))
    pen.line((LEFT, TOP, LEFT, BOTTOM), fill=INK)
