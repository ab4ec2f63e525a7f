"""Read a short text: words, numbers and codes, in some colour, size and place."""

import random
import string
from collections.abc import Iterator

from apps.tasksets.generators.seen import COLOURS, PAPER, build_picture_task, distinct, letters
from apps.tasksets.rows import TaskRow
from apps.tasksets.tone_language import FEW_OBJECTS

WIDTH = 160
HEIGHT = 48  # pixels
TINTS = (PAPER, (245, 235, 215), (225, 238, 250), (232, 245, 232))
CODE = string.ascii_uppercase.replace("O", "").replace("I", "") + "23456789"  # none that look alike


def generate(size: int, seed: int) -> Iterator[TaskRow]:
    """Yield different texts; the answer is {"text": what is written}."""
    return distinct(size, seed, _draw)


def _draw(draw: random.Random) -> TaskRow:
    kind = draw.choice(("words", "number", "code"))
    text = _text(draw, kind)
    paper = draw.choice(TINTS)
    ink = COLOURS[draw.choice(list(COLOURS))]
    text_image = letters(text, draw.choice((1, 1, 2)), ink, paper)
    if text_image.width > WIDTH - 8:
        text_image = letters(text, 1, ink, paper)
    image = text_image.resize((WIDTH, HEIGHT))
    image.paste(paper, (0, 0, WIDTH, HEIGHT))
    image.paste(
        text_image,
        (
            draw.randint(4, WIDTH - 4 - text_image.width),
            draw.randint(2, HEIGHT - 2 - text_image.height),
        ),
    )
    return build_picture_task(
        image,
        "What is written in the picture? Answer with the text alone.",
        {"text": text},
        "ocr",
        {"kind": kind},
    )


def _text(draw: random.Random, kind: str) -> str:
    if kind == "words":
        return " ".join(draw.sample(FEW_OBJECTS, draw.randint(1, 2)))
    if kind == "number":
        return (
            f"{draw.randint(0, 99_999):,}"
            if draw.random() < 0.5
            else f"{draw.randint(0, 99_999) / 100:.2f}"
        )
    return "".join(draw.choice(CODE) for _ in range(draw.randint(4, 8)))
