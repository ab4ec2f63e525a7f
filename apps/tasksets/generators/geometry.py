"""The third angle of a drawn triangle, two of which are written at their corners."""

import math
import random
from collections.abc import Iterator

from apps.tasksets.generators.seen import INK, blank, build_picture_task, distinct, letters
from apps.tasksets.rows import TaskRow

WIDTH = 160
HEIGHT = 128  # pixels
ASIDE = 42
ABOVE = 20  # left free for the labels
MIN_ANGLE = 25
MAX_ANGLE = 120  # degrees of an angle


def generate(size: int, seed: int) -> Iterator[TaskRow]:
    """Yield different triangles; the answer is {"degrees": the angle at C, "tolerance": 0}."""
    return distinct(size, seed, _draw)


def _draw(draw: random.Random) -> TaskRow:
    first = draw.randint(MIN_ANGLE, MAX_ANGLE)
    second = draw.randint(MIN_ANGLE, min(MAX_ANGLE, 180 - MIN_ANGLE - first))
    image, pen = blank(WIDTH, HEIGHT)
    corners = _corners(first, second, draw.random() < 0.5)
    pen.polygon(corners, outline=INK)
    middle = [sum(corner[axis] for corner in corners) / 3 for axis in (0, 1)]
    for corner, name in zip(corners, (f"A {first}°", f"B {second}°", "C ?"), strict=True):
        label = letters(name)
        image.paste(label, _place_label(corner, middle, label.size))
    question = "What is the angle at C, in degrees? Answer with a number."
    return build_picture_task(
        image,
        question,
        {"degrees": 180 - first - second, "tolerance": 0},
        "geometry",
        {"angles": [first, second]},
    )


def _corners(first: int, second: int, is_upside_down: bool) -> list[tuple[int, int]]:
    """Return A, B and C in pixels: as large as fits between the margins, the side AB level."""
    height = 1 / (
        1 / math.tan(math.radians(first)) + 1 / math.tan(math.radians(second))
    )  # over a base of 1
    foot = height / math.tan(math.radians(first))
    low = min(0.0, foot)
    high = max(1.0, foot)
    scale = min((WIDTH - 2 * ASIDE) / (high - low), (HEIGHT - 2 * ABOVE) / height)
    spare = (WIDTH - scale * (high - low)) / 2 - low * scale
    base = HEIGHT - ABOVE
    tip = HEIGHT - ABOVE - height * scale
    if is_upside_down:
        base = HEIGHT - base
        tip = HEIGHT - tip
    return [
        (round(spare + x * scale), round(y)) for x, y in ((0.0, base), (1.0, base), (foot, tip))
    ]


def _place_label(
    corner: tuple[int, int], middle: list[float], size: tuple[int, int]
) -> tuple[int, int]:
    """Return the place of a label of that size outside of a corner, but inside the picture."""
    across = corner[0] - middle[0]
    down = corner[1] - middle[1]
    length = math.hypot(across, down)
    width, height = size
    x = corner[0] + across / length * (width / 2 + 3) - width / 2
    y = corner[1] + down / length * (height / 2 + 3) - height / 2
    left = max(0, min(WIDTH - width, round(x)))
    top = max(0, min(HEIGHT - height, round(y)))
    return left, top
