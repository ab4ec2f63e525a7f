"""Rewards a box by its overlap with the correct box, or a point inside the correct box.

A box is worth its intersection over union with the right one; a point is worth 1 or 0.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Literal, Self, TypeGuard

from pydantic import Field, model_validator

from apps.rewards.final_answer import NoAnswer, after_thinking, verbatim
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

READ = 4_000  # characters of the reply's end
NUMBER = r"\s*(-?[0-9]{1,7}(?:\.[0-9]{1,9})?)\s*"
BOX = re.compile(rf"\[{NUMBER},{NUMBER},{NUMBER},{NUMBER}\]", re.ASCII)
CORNERS = re.compile(rf"\({NUMBER},{NUMBER}\)\s{{0,9}},?\s{{0,9}}\({NUMBER},{NUMBER}\)", re.ASCII)

# Two points in brackets of their own, as [[1, 2], [3, 4]], are read like corners.
CORNERS_IN_LISTS = re.compile(
    rf"\[{NUMBER},{NUMBER}\]\s{{0,9}},\s{{0,9}}\[{NUMBER},{NUMBER}\]", re.ASCII
)
# Four numbers between tags or brackets, or alone where they are marked as the answer.
PLAIN = re.compile(
    r"(?:^|[\[>(])\s*+(-?[0-9]{1,7}(?:\.[0-9]{1,9})?)"
    + r"(?:\s*+,\s*+|\s++)(-?[0-9]{1,7}(?:\.[0-9]{1,9})?)" * 3
    + r"\s*+(?:$|[\]<)])",
    re.ASCII,
)
CORNER = (
    r"[\"']?\s{0,3}[:=]\s{0,3}[\[{(]\s{0,3}(?:[\"']?x[\"']?\s{0,3}:)?"
    + NUMBER
    + r",\s{0,3}(?:[\"']?y[\"']?\s{0,3}:)?"
    + NUMBER
    + r"[\]})]"
)
NAMED_CORNERS = re.compile(
    rf"top_?left{CORNER}\s{{0,9}},?\s{{0,9}}[\"']?bottom_?right{CORNER}", re.ASCII | re.IGNORECASE
)
FORMS = (BOX, CORNERS, CORNERS_IN_LISTS, NAMED_CORNERS)
# The four corners of a rectangle, as [[1, 2], [3, 2], [3, 4], [1, 4]].
FOUR_CORNERS = re.compile(
    r"\[\s{0,3}" + r"\s{0,3},\s{0,3}".join([rf"[\[(]{NUMBER},{NUMBER}[\])]"] * 4) + r"\s{0,3}\]",
    re.ASCII,
)
# Numbers that are quoted or have a unit, and Kosmos's and MiniGPT's <10><20><110><220>.
QUOTED = re.compile(r"[\"'](-?[0-9]{1,7}(?:\.[0-9]{1,9})?)[\"'](?=\s{0,3}[,\]])", re.ASCII)
PIXELS = re.compile(r"(?<=[0-9])\s?(?:px|pixels)\b")
IN_ANGLES = re.compile(
    r"<([0-9]{1,7})>\s?<([0-9]{1,7})>\s?<([0-9]{1,7})>\s?<([0-9]{1,7})>", re.ASCII
)
# Location tokens: PaliGemma's <loc0256> are 1024ths of the sides, top before left; Florence-2's
# <loc_52> are thousandths, left before top.
TOP_FIRST = re.compile(r"\s?".join([r"<loc([0-9]{4})>"] * 4), re.ASCII)
LEFT_FIRST = re.compile(r"\s?".join([r"<loc_([0-9]{1,3})>"] * 4), re.ASCII)
# Gemini's "box_2d": [ymin, xmin, ymax, xmax] in thousandths of the sides, where these are known.
BOX_2D = re.compile(
    rf"(?<![A-Za-z0-9_])[\"']?box_2d[\"']?\s{{0,3}}[:=]\s{{0,3}}"
    rf"\[{NUMBER},{NUMBER},{NUMBER},{NUMBER}\]",
    re.ASCII | re.IGNORECASE,
)
# Points: Molmo's <point x="61.5" y="40.4"> in percent of the sides, and two numbers as in (3, 4),
# [3, 4], "point_2d": [3, 4] or x = 3, y = 4.
IN_PERCENT = re.compile(
    r"<point\s{1,3}x\s?=\s?[\"']([0-9]{1,3}(?:\.[0-9]{1,9})?)[\"']"
    r"\s{1,3}y\s?=\s?[\"']([0-9]{1,3}(?:\.[0-9]{1,9})?)[\"']",
    re.ASCII | re.IGNORECASE,
)
PAIR = re.compile(rf"[\[(]{NUMBER},{NUMBER}[\])]", re.ASCII)
NAMED_PAIR = re.compile(
    rf"(?<![A-Za-z0-9_])[\"']?x[\"']?\s{{0,3}}[:=]{NUMBER},\s{{0,3}}"
    rf"[\"']?y[\"']?\s{{0,3}}[:=]{NUMBER}",
    re.ASCII | re.IGNORECASE,
)
FULL_WIDTH = str.maketrans("［］（），０１２３４５６７８９", "[](),0123456789")
# A box that is said not to be the one.
DENIED = re.compile(
    r"(?:\bnot|n['’]t|\bnever|不是|不在)\s{0,3}(?:(?:at|in|within|the|be|box)\s){0,3}[`*$(\[{\s]{0,4}$",
    re.IGNORECASE,
)
NAMES = (
    ("x1", "y1", "x2", "y2"),
    ("x0", "y0", "x1", "y1"),
    ("xmin", "ymin", "xmax", "ymax"),
    ("left", "top", "right", "bottom"),
    ("x", "y", "width", "height"),
    ("x", "y", "w", "h"),
    ("left", "top", "width", "height"),
)
NAMED = re.compile(
    r"(?<![A-Za-z0-9_])[\"']?(x_?min|y_?min|x_?max|y_?max|x_?[0-2]|y_?[0-2]|left|top|right|bottom"
    r"|width|height|x|y|w|h)[\"']?\s{0,3}[:=]\s{0,3}[\"']?(-?[0-9]{1,7}(?:\.[0-9]{1,9})?)",
    re.ASCII | re.IGNORECASE,
)

# Columns of a task's box; a `bbox` may have corners or a corner with sizes, so it is not guessed.
BOX_COLUMNS = ("box", "bbox_2d", "value")
NO_BOX = (
    "the task must have a box as x0, y0, x1, y1 and, unless it is in pixels, the image's width "
    "and height"
)
NO_SIZE = "parts of the image's sides, but the task has no width and height"

Box = tuple[float, float, float, float]
Point = tuple[float, float]
Sides = tuple[float, float]
VERSION = 6


class Options(ScorerOptions):
    reply: Literal["box", "point"] = Field(
        "box", description="What replies give: a box, or a point inside of the right box."
    )
    iou_threshold: float | None = Field(
        None,
        gt=0,
        le=1,
        description=(
            "Overlap from which the reward is 1, and 0 below. Null: the reward is the overlap."
        ),
    )
    unit: Literal["pixels", "thousandths", "share"] = Field(
        "pixels",
        description=(
            "Unit of the coordinates: pixels, thousandths of the image's sides, or shares "
            "from 0 to 1."
        ),
    )

    @model_validator(mode="after")
    def _points_have_no_overlap(self) -> Self:
        if self.reply == "point" and self.iou_threshold is not None:
            raise ValueError("at: a point has no overlap; leave it out, or set reply to box")
        return self


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """Score the reply's one box or point against `answer["box"]`; 0 if it gives none, or several.

    Boxes are [x0, y0, x1, y1], (x0, y0), (x1, y1), objects with named edges or sizes, or location
    tokens. Points are (x, y), [x, y], objects with x and y, or tags in percent.
    """
    expected = _expected_box(task, options)
    if expected is None:
        return Verdict(None, NO_BOX)
    sides = _sides_of_image(task, options)
    try:
        if options.reply == "point":
            return _score_point(point_in(rollout.text, sides), expected)
        box = box_in(rollout.text, sides)
    except NoAnswer as error:
        return Verdict(0.0, str(error), {"expected": expected})
    overlap = iou(expected, box)
    value = overlap if options.iou_threshold is None else float(overlap >= options.iou_threshold)
    return Verdict(
        value,
        f"overlap {overlap:.2f}",
        {"expected": expected, "answer": box, "iou": round(overlap, 6)},
    )


def _score_point(point: Point, box: Box) -> Verdict:
    is_inside = box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3]
    where = "inside of the box" if is_inside else "outside of the box"
    return Verdict(float(is_inside), where, {"expected": box, "answer": point})


def box_in(text: str, sides: Sides | None = None) -> Box:
    """Return the one box of the reply. Raises NoAnswer where it gives none, or several.

    `sides` are the image's width and height in the unit of the box, for location tokens.
    """
    marked = verbatim(text)
    reply = _answer_text(text)
    _require_sides(reply, sides)
    reply = _usual_form(reply, sides)
    boxes = {_box(match.groups()) for form in FORMS for match in _affirmed_matches(form, reply)}
    plain = PLAIN.search(reply.strip())
    is_all = plain is not None and plain.group() == reply.strip()
    if plain and not any(form.search(reply) for form in FORMS):
        is_set_off = marked is not None or is_all or not plain.group()[0].isdigit()
        boxes = {_box(plain.groups())} if is_set_off else set()
    if not NAMED_CORNERS.search(reply):
        boxes |= set(_boxes_with_names(reply))
    if len(boxes) != 1:
        raise NoAnswer("several different boxes" if boxes else "no box")
    return boxes.pop()


def point_in(text: str, sides: Sides | None = None) -> Point:
    """Return the one point of the reply. Raises NoAnswer where it gives none, or several.

    `sides` are the image's width and height in the unit of the point, for points in percent.
    """
    reply = PIXELS.sub("", _answer_text(text).translate(FULL_WIDTH))
    _require_sides(reply, sides)
    points = {
        _point(match) for form in (PAIR, NAMED_PAIR) for match in _affirmed_matches(form, reply)
    }
    if sides:
        for match in _affirmed_matches(IN_PERCENT, reply):
            across, down = _point(match)
            points.add((across * sides[0] / 100, down * sides[1] / 100))
    if len(points) != 1:
        raise NoAnswer("several different points" if points else "no point")
    return points.pop()


def _answer_text(text: str) -> str:
    """Return the reply's marked answer, or else the end of its text after the thoughts."""
    marked = verbatim(text)
    return after_thinking(text)[-READ:] if marked is None else marked


def _require_sides(reply: str, sides: Sides | None) -> None:
    relative = (TOP_FIRST, LEFT_FIRST, IN_PERCENT)
    if sides is None and any(form.search(reply) for form in relative):
        raise NoAnswer(NO_SIZE)


def _affirmed_matches(form: re.Pattern, reply: str) -> Iterator[re.Match]:
    """Yield the form's matches, except those that the reply denies."""
    for match in form.finditer(reply):
        if not DENIED.search(reply[max(0, match.start() - 40) : match.start()]):
            yield match


def _point(match: re.Match) -> Point:
    return float(match[1]), float(match[2])


def _usual_form(text: str, sides: Sides | None) -> str:
    """Write boxes in other notations as four numbers in brackets."""
    if sides:
        text = LEFT_FIRST.sub(lambda match: _write_box(map(int, match.groups()), 1000, sides), text)
        text = BOX_2D.sub(
            lambda match: _write_box((float(match[place]) for place in (2, 1, 4, 3)), 1000, sides),
            text,
        )
        text = TOP_FIRST.sub(
            lambda match: _write_box((int(match[place]) for place in (2, 1, 4, 3)), 1024, sides),
            text,
        )
    text = PIXELS.sub("", QUOTED.sub(r"\1", text.translate(FULL_WIDTH)))
    text = IN_ANGLES.sub(r"[\1, \2, \3, \4]", text)
    return FOUR_CORNERS.sub(_rectangle, text)


def _write_box(edges: Iterable[float], parts: int, sides: Sides) -> str:
    """Write a box whose edges are in `parts` of the image's sides in the unit of the sides."""
    return str([round(edge / parts * sides[place % 2], 6) for place, edge in enumerate(edges)])


def _rectangle(match: re.Match) -> str:
    """Return the box of four corners if they form a rectangle; else the text unchanged."""
    numbers = [float(number) for number in match.groups()]
    across = sorted(set(numbers[::2]))
    down = sorted(set(numbers[1::2]))
    corners = set(zip(numbers[::2], numbers[1::2], strict=True))
    if len(across) != 2 or len(down) != 2 or len(corners) != 4:
        return match.group()
    return str([across[0], down[0], across[1], down[1]])


def _box(numbers: Iterable[str]) -> Box:
    left, top, right, bottom = map(float, numbers)
    return left, top, right, bottom


def _boxes_with_names(text: str) -> Iterator[Box]:
    """Yield boxes whose numbers have names: {"x1": 10, "y1": 20, "x2": 110, "y2": 220}."""
    numbers = [
        (name.lower().replace("_", ""), float(number)) for name, number in NAMED.findall(text)
    ]
    for names in NAMES:
        named_numbers = [(name, number) for name, number in numbers if name in names]
        for start in range(0, len(named_numbers) - 3, 4):
            box = dict(named_numbers[start : start + 4])
            if set(box) == set(names):
                first, second, third, fourth = (box[name] for name in names)
                is_size = names[2].startswith("w")
                yield (
                    (first, second, first + third, second + fourth)
                    if is_size
                    else (first, second, third, fourth)
                )


def iou(first: Box, second: Box) -> float:
    """Return the intersection over union, 0 where a box has no area."""
    across = min(first[2], second[2]) - max(first[0], second[0])
    down = min(first[3], second[3]) - max(first[1], second[1])
    if min(across, down, *_sides(first), *_sides(second)) <= 0:
        return 0.0
    return across * down / (math.prod(_sides(first)) + math.prod(_sides(second)) - across * down)


def _sides(box: Box) -> tuple[float, float]:
    return box[2] - box[0], box[3] - box[1]


def _expected_box(task: TaskView, options: Options) -> Box | None:
    """Return the right box in the unit that replies use; None if the task has none."""
    box = _read_task_box(
        next((task.answer[name] for name in BOX_COLUMNS if name in task.answer), None)
    )
    size = _size_of_image(task)
    sides = _sides_of_image(task, options)
    if box is None:
        return None
    if options.unit == "pixels":
        scales = (1.0, 1.0)
    elif size is None or sides is None:
        return None
    else:
        scales = (sides[0] / size[0], sides[1] / size[1])
    left, top, right, bottom = (edge * scales[place % 2] for place, edge in enumerate(box))
    expected = (left, top, right, bottom)
    return expected if min(_sides(expected)) > 0 else None


def _sides_of_image(task: TaskView, options: Options) -> Sides | None:
    """Return the image's width and height in the unit that replies use, if they are known."""
    if options.unit == "pixels":
        return _size_of_image(task)
    return (1000.0, 1000.0) if options.unit == "thousandths" else (1.0, 1.0)


def _size_of_image(task: TaskView) -> Sides | None:
    width, height = task.answer.get("width"), task.answer.get("height")
    if not _is_number(width) or not _is_number(height) or min(width, height) <= 0:
        return None
    return float(width), float(height)


def _read_task_box(value: object) -> Box | None:
    """Read a task's box: four numbers, also as JSON or by names, and a list of one such box."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, list) and len(value) == 4 and all(map(_is_number, value)):
        left, top, right, bottom = value
        return left, top, right, bottom
    if not isinstance(value, str | dict):
        return None
    try:
        return box_in(value if isinstance(value, str) else json.dumps(value))
    except NoAnswer:
        return None


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
