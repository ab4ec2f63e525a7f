"""Rewards a color grid that equals the expected one in every cell, as in ARC-AGI."""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from pydantic import Field

from apps.accounts import strict_json
from apps.rewards.final_answer import after_thinking, boxes, inside_tags
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

Grid = list[list[int]]
MAX_SIDE = 100  # rows and columns
MAX_GRIDS = 20  # grids of a task
READ = 100_000  # characters of the reply's end
_LISTED = re.compile(r"\[\s{0,9}(?:\[[\d\s,]{1,400}\]\s{0,9},?\s{0,9}){1,100}\]", re.ASCII)
_LINE = re.compile(
    r"[\s>|]{0,8}\[?\d(?:[\s,|]{1,3}\d){0,99}\]?,?[\s|]{0,8}|[ \t]{0,8}\d{1,100}", re.ASCII
)


class Options(ScorerOptions):
    partial: bool = Field(
        False,
        description=(
            "Give the share of right cells for a grid of the right size. By default only a grid "
            "that is right in every cell counts."
        ),
    )


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """Return 1 where the reply's last grids are `answer["grids"]` (or `value`, one grid).

    A grid is a list of rows in JSON, or lines of digits. Reasoning, and grids that stand before the
    last ones, do not count.
    """
    expected = _expected_grids(task)
    if expected is None:
        return Verdict(None, "the task has no grid of whole numbers as its answer")
    grids = grids_in(rollout.text)
    details = {"expected": expected, "answer": grids[-len(expected) :]}
    if len(grids) < len(expected):
        return Verdict(0.0, f"{len(grids)} of {len(expected)} grids found", details)
    shares = [
        _share(right, answer)
        for right, answer in zip(expected, grids[-len(expected) :], strict=True)
    ]
    value = sum(shares) / len(shares) if options.partial else float(min(shares) == 1)
    return Verdict(value, "the right grid" if min(shares) == 1 else "another grid", details)


def _expected_grids(task: TaskView) -> list[Grid] | None:
    """Return the right grids; one is also read by itself."""
    value = task.answer.get("grids", task.answer.get("value"))
    if isinstance(value, str):
        try:
            value = strict_json.decode_json(value)
        except strict_json.NotStrictJson:
            return None
    listed = [value] if _is_grid(value) else value
    if not isinstance(listed, list) or not 0 < len(listed) <= MAX_GRIDS:
        return None
    return listed if all(map(_is_grid, listed)) else None


def _is_grid(value: Any) -> bool:
    if not isinstance(value, list) or not 0 < len(value) <= MAX_SIDE:
        return False
    if not all(isinstance(line, list) and 0 < len(line) <= MAX_SIDE for line in value):
        return False
    cells = [cell for line in value for cell in line]
    return all(type(cell) is int for cell in cells) and len({len(line) for line in value}) == 1


def grids_in(reply: str) -> list[Grid]:
    """List the grids of a reply in order: those in JSON, or else those in lines of digits.

    What stands in a box or in answer tags comes before all others.
    """
    answer_text = after_thinking(reply)[-READ:]
    marked = boxes(answer_text) or inside_tags(answer_text)
    text = "\n".join(marked) if marked else answer_text
    return list(_bracketed_grids(text)) or list(_in_lines(text))


def _bracketed_grids(text: str) -> Iterator[Grid]:
    for match in _LISTED.finditer(text):
        rows = [re.findall(r"\d+", row) for row in re.findall(r"\[([\d\s,]+)\]", match.group()[1:])]
        grid = [[int(cell[:9]) for cell in row] for row in rows]
        if _is_grid(grid):
            yield grid


def _in_lines(text: str) -> Iterator[Grid]:
    """Yield grids of which each row stands on a line: 0 1 1, or 011."""
    lines = text.splitlines()
    for are_rows, block in groupby(lines, lambda line: bool(_LINE.fullmatch(line))):
        grid = [[int(digit) for digit in re.findall(r"[0-9]", line)] for line in block]
        if are_rows and _is_grid(grid):
            yield grid


def _share(expected: Grid, answer: Grid) -> float:
    """Return the share of cells that are right; 0 for another size."""
    if [len(line) for line in answer] != [len(line) for line in expected]:
        return 0.0
    cells = [
        expected_cell == answer_cell
        for expected_row, answer_row in zip(expected, answer, strict=True)
        for expected_cell, answer_cell in zip(expected_row, answer_row, strict=True)
    ]
    return sum(cells) / len(cells)
