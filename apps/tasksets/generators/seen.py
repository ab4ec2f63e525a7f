"""Shared parts of the generators with pictures: colours, shapes, letters and making a task.

Each picture is drawn from a seed of its own, in whole pixels and without smoothing: the same seed
gives the same pixels.
"""

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from apps.tasksets.messages import Part, picture_part
from apps.tasksets.pictures import encode_drawn
from apps.tasksets.rows import TaskRow

MAX_PICTURES = 100_000  # pictures of one set
TRIES = 1_000  # drawings looked at in a row without one that is new
COLOURS = {
    "red": (214, 39, 40),
    "blue": (31, 88, 200),
    "green": (34, 139, 60),
    "orange": (240, 140, 20),
    "purple": (128, 60, 170),
    "black": (30, 30, 30),
}
SHAPES = ("circle", "square", "triangle", "star")
STAR = (
    (50, 2),
    (62, 36),
    (98, 38),
    (69, 60),
    (80, 96),
    (50, 74),
    (20, 96),
    (31, 60),
    (2, 38),
    (38, 36),
)  # hundredths
BLANK = 6
ADVANCE = 7  # pixels: how wide a blank is, and from one letter to the next
PAPER = (255, 255, 255)
INK = (30, 30, 30)
LINE = (200, 200, 200)

Box = tuple[int, int, int, int]


def distinct(size: int, seed: int, draw: Callable[[random.Random], TaskRow]) -> Iterator[TaskRow]:
    """Yield `size` different tasks, each drawn with a seed of its own.

    Raises ValueError when there are too few.
    """
    if not 0 < size <= MAX_PICTURES:
        raise ValueError(f"size must be from 1 to {MAX_PICTURES}, not {size}")
    seen_keys: set[tuple] = set()
    last = 0
    for number in itertools.count():
        row = draw(random.Random(f"{seed}:{number}"))
        parts = row.prompt[0]["content"]
        assert not isinstance(parts, str)  # every prompt shows a picture
        key = tuple(part["picture"] if part["type"] == "image" else part["text"] for part in parts)
        if key not in seen_keys:
            seen_keys.add(key)
            last = number
            yield row
        if len(seen_keys) == size:
            return
        if number - last > TRIES:
            raise ValueError(
                f"size is too large: no further different task was found after {len(seen_keys)}"
            )


def build_picture_task(
    image: Image.Image, question: str, answer: dict[str, Any], domain: str, meta: dict[str, Any]
) -> TaskRow:
    """Return the task that shows this picture and asks this question."""
    picture = encode_drawn(image)
    content: list[Part] = [picture_part(picture), {"type": "text", "text": question}]
    return TaskRow(
        [{"role": "user", "content": content}], answer, meta, domain=domain, pictures=(picture,)
    )


def blank(width: int, height: int) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    image = Image.new("RGB", (width, height), PAPER)
    pen = ImageDraw.Draw(image)
    pen.fontmode = "1"
    return image, pen


def draw_shape(pen: ImageDraw.ImageDraw, shape: str, box: Box, colour: str) -> None:
    """Draw one of SHAPES that fills the square `box` (x0, y0, x1, y1; the ends belong to it)."""
    x, y, right, bottom = box
    side = right - x
    ink = COLOURS[colour]
    if shape == "circle":
        pen.ellipse(box, fill=ink)
    elif shape == "square":
        pen.rectangle(box, fill=ink)
    elif shape == "triangle":
        pen.polygon([(x + side // 2, y), (right, bottom), (x, bottom)], fill=ink)
    else:
        pen.polygon(
            [(x + across * side // 100, y + down * side // 100) for across, down in STAR], fill=ink
        )


def place_squares(
    draw: random.Random, count: int, sides: tuple[int, int], width: int, height: int, gap: int = 3
) -> list[Box]:
    """Return square boxes of sides within `sides` that keep `gap` pixels apart.

    There are fewer than `count` if no more fit.
    """
    boxes: list[Box] = []
    for _ in range(count * 40):
        side = draw.randint(*sides)
        x = draw.randint(gap, width - side - gap)
        y = draw.randint(gap, height - side - gap)
        if all(
            x > right + gap or x + side + gap < left or y > bottom + gap or y + side + gap < top
            for left, top, right, bottom in boxes
        ):
            boxes.append((x, y, x + side, y + side))
        if len(boxes) == count:
            break
    return boxes


def letters(
    text: str, times: int = 1, ink: tuple[int, int, int] = INK, paper: tuple[int, int, int] = PAPER
) -> Image.Image:
    """Render the text in a fixed bitmap font, `times` as large, the same on every machine.

    No outline is smoothed.
    """
    font = ImageFont.load_default_imagefont()
    image = Image.new("RGB", (len(text) * ADVANCE + 2, font.getbbox(text)[3]), paper)
    pen = ImageDraw.Draw(image)
    pen.fontmode = "1"
    # One by one and behind a blank: some letters begin a pixel before their box, and would be cut
    # there or by the next.
    for place, letter in enumerate(text):
        pen.text((1 + place * ADVANCE - BLANK, 0), f" {letter}", fill=ink, font=font)
    return image.resize((image.width * times, image.height * times), Image.Resampling.NEAREST)
