"""Pays a box by how well it covers the right one: their intersection over their union."""

import math
import re
from typing import Literal

from pydantic import Field

from apps.rewards.final_answer import NoAnswer, after_thinking, verbatim
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

READ = 4_000  # characters of the reply's end
NUMBER = r"\s*(-?[0-9]{1,7}(?:\.[0-9]{1,9})?)\s*"
BOX = re.compile(rf"\[{NUMBER},{NUMBER},{NUMBER},{NUMBER}\]", re.ASCII)
CORNERS = re.compile(rf"\({NUMBER},{NUMBER}\)\s{{0,9}},?\s{{0,9}}\({NUMBER},{NUMBER}\)", re.ASCII)

Box = tuple[float, float, float, float]


class Options(ScorerOptions):
    at: float | None = Field(None, gt=0, le=1, description="From what overlap on a box earns 1, and below it 0; null: the overlap.")
    unit: Literal["pixels", "thousandths", "share"] = Field(
        "pixels", description="In what boxes are told: pixels of the picture, thousandths of its sides, or shares of them, 0 to 1."
    )


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """Of the reply's one box, as [x0, y0, x1, y1] or (x0, y0), (x1, y1), against `answer["box"]`; 0 where there is none."""
    wanted = _wanted(task, options)
    if wanted is None:
        return Verdict(None, "the task does not say where it is: box, and unless in pixels, the picture's width and height")
    try:
        said = box_in(rollout.text)
    except NoAnswer as error:
        return Verdict(0.0, str(error), {"expected": wanted})
    overlap = iou(wanted, said)
    value = overlap if options.at is None else float(overlap >= options.at)
    return Verdict(value, f"overlaps by {overlap:.2f}", {"expected": wanted, "said": said, "iou": round(overlap, 6)})


def box_in(text: str) -> Box:
    """The box that the reply gives. Raises NoAnswer where it gives none, or several."""
    marked = verbatim(text)
    told = after_thinking(text)[-READ:] if marked is None else marked
    found = {tuple(map(float, numbers)) for form in (BOX, CORNERS) for numbers in form.findall(told)}
    if len(found) != 1:
        raise NoAnswer("several different boxes" if found else "no box")
    return found.pop()


def iou(one: Box, other: Box) -> float:
    """Intersection over union, 0 where a box has no area."""
    across = min(one[2], other[2]) - max(one[0], other[0])
    down = min(one[3], other[3]) - max(one[1], other[1])
    if min(across, down, *_sides(one), *_sides(other)) <= 0:
        return 0.0
    return across * down / (math.prod(_sides(one)) + math.prod(_sides(other)) - across * down)


def _sides(box: Box) -> tuple[float, float]:
    return box[2] - box[0], box[3] - box[1]


def _wanted(task: TaskView, options: Options) -> Box | None:
    """The right box in the unit in which boxes are told; None where the task does not say."""
    box, sides = task.answer.get("box", task.answer.get("value")), (task.answer.get("width"), task.answer.get("height"))
    if not isinstance(box, list) or len(box) != 4 or not all(map(_is_number, box)):
        return None
    if options.unit == "pixels":
        sides, scale = (1, 1), 1
    elif not all(map(_is_number, sides)) or min(sides) <= 0:
        return None
    else:
        scale = {"thousandths": 1000, "share": 1}[options.unit]
    found = tuple(edge * scale / sides[place % 2] for place, edge in enumerate(box))
    return found if min(_sides(found)) > 0 else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
