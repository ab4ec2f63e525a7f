"""A question about a picture made of characters, since policies here read text alone."""

import random
from dataclasses import dataclass
from typing import ClassVar

from apps.environments.library.protocol import Step

COLOURS = {"red": "R", "green": "G", "blue": "B", "yellow": "Y"}
SHAPES = {
    "square": ("####", "####", "####", "####"),
    "triangle": ("   #", "  ##", " ###", "####"),
    "disc": (" ## ", "####", "####", " ## "),
    "cross": ("#  #", " ## ", " ## ", "#  #"),
}
SIDE = 6  # characters of a place, in both directions; a shape and the gap around it
EMPTY = "."


@dataclass(frozen=True)
class Thing:
    shape: str
    colour: str
    row: int
    column: int


class PictureQuestion:
    """Coloured shapes, one character per pixel, and a question about a count or a position.

    Only the right word or number earns 1. Options: `rows` and `columns` (1 to 4), `things` (how
    many shapes).
    """

    title: ClassVar = "Picture question"
    reward_low: ClassVar = 0.0
    reward_high: ClassVar = 1.0
    turn_limit: ClassVar = 1
    turn_s: ClassVar = 2.0

    def reset(self, seed: int, options: dict) -> str:
        rows = options.get("rows", 2)
        columns = options.get("columns", 3)
        if not (
            isinstance(rows, int)
            and isinstance(columns, int)
            and 1 <= rows <= 4
            and 1 <= columns <= 4
        ):
            raise ValueError(
                f"rows and columns must be whole numbers from 1 to 4, not {rows!r} and {columns!r}"
            )
        several = options.get("things", max(1, rows * columns - 2))
        if not (isinstance(several, int) and 1 <= several <= rows * columns):
            raise ValueError(
                f"things must be from 1 and up to rows * columns, {rows * columns}, not {several!r}"
            )
        draw = random.Random(seed)
        places = draw.sample(
            [(row, column) for row in range(rows) for column in range(columns)], several
        )
        things = [
            Thing(draw.choice(list(SHAPES)), draw.choice(list(COLOURS)), *place) for place in places
        ]
        question, self.expected = draw_question(draw, things)
        key = ", ".join(f"{letter} is {name}" for name, letter in COLOURS.items())
        return f"{draw_pixel_text(things, rows, columns)}\n{key}.\n{question}"

    def step(self, action: str) -> Step:
        is_right = action.strip().rstrip(".").lower() == self.expected
        return Step("right" if is_right else f"wrong: {self.expected}", float(is_right), True)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def draw_pixel_text(things: list[Thing], rows: int, columns: int) -> str:
    """Return the picture, one line for each row of pixels."""
    pixels = [[EMPTY] * (columns * SIDE) for _ in range(rows * SIDE)]
    for thing in things:
        for down, line in enumerate(SHAPES[thing.shape], start=thing.row * SIDE + 1):
            for right, mark in enumerate(line, start=thing.column * SIDE + 1):
                pixels[down][right] = COLOURS[thing.colour] if mark == "#" else EMPTY
    return "\n".join("".join(line) for line in pixels)


def draw_question(draw: random.Random, things: list[Thing]) -> tuple[str, str]:
    """Return a question about the picture, and its answer."""
    target = draw.choice(things)
    where = f"in row {target.row + 1}, column {target.column + 1} of the shapes' places"
    return draw.choice(
        [
            (
                f"How many shapes are {target.colour}? Say the number.",
                str(sum(thing.colour == target.colour for thing in things)),
            ),
            (
                f"How many shapes are a {target.shape}? Say the number.",
                str(sum(thing.shape == target.shape for thing in things)),
            ),
            (f"Which colour has the shape {where}? Say the word.", target.colour),
            (f"Which shape is {where}: {', '.join(SHAPES)}? Say the word.", target.shape),
        ]
    )
