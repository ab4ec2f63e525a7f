"""Layouts of tasks whose answers a program checks in ways of its own: instructions (IFEval), and
grids (ARC-AGI).
"""

from typing import Any

from apps.tasksets.checked_instructions import BadInstructions, normal_form
from apps.tasksets.layouts.answers import QUESTIONS
from apps.tasksets.layouts.contract import (
    TASKS,
    Layout,
    NotThisLayout,
    Row,
    RowReading,
    first_text,
    is_finite_number,
    is_objects,
    pass_over,
)
from apps.tasksets.layouts.conversations import (
    decoded,
    is_conversation,
    read_prompt_messages,
)
from apps.tasksets.layouts.questions import read_meta

# -- instructions ----------------------------------------------------------------------------------


def _is_instructed(row: Row) -> bool:
    """Tell whether the row has instructions; unknown ones count, so that the reader names them."""
    try:
        return normal_form(row) is not None
    except BadInstructions:
        return True


def _instructed(row: Row, taking: RowReading) -> Row:
    try:
        instructions = normal_form(row)
    except BadInstructions as problem:
        raise NotThisLayout(str(problem)) from None
    pass_over(row, "instruction_id_list", "kwargs", "ground_truth", "instructions")
    name = first_text(row, QUESTIONS) or first_text(row, ("messages", "conversations"))
    if not name:
        raise NotThisLayout(f"the prompt is missing; use one of the columns {', '.join(QUESTIONS)}")
    prompt = row[name]
    if is_conversation(prompt):
        prompt = read_prompt_messages(prompt, name, taking)
    pass_over(row, "messages", "constraint", "constraint_type", "dataset")
    meta = read_meta(row, "key", "constraint_type")
    return {"prompt": prompt, "answer": {"instructions": instructions}, "meta": meta}


# -- grids -----------------------------------------------------------------------------------------

MAX_SIDE = 30  # rows and columns
ASKED = (
    "Each input grid becomes its output grid by the same rule. Find the rule, and apply it to the "
    "test input. Write the output grid as a list of rows in JSON{several}."
)
SEVERAL = ", for each of the {number} test inputs in turn"


def _is_grids(row: Row) -> bool:
    train, test = (decoded(row.get(name)) for name in ("train", "test"))
    if not is_objects(train) or not is_objects(test):
        return False
    return "input" in train[0] and "output" in train[0] and "input" in test[0]


def _grids(row: Row, taking: RowReading) -> Row:
    """Show the pairs and ask for the outputs of all test inputs."""
    train = _pairs(decoded(row["train"]), "train")
    test = _pairs(decoded(row["test"]), "test")
    several = SEVERAL.format(number=len(test)) if len(test) > 1 else ""
    examples = [
        f"Example {place}\nInput: {_format_grid(grid)}\nOutput: {_format_grid(output)}"
        for place, (grid, output) in enumerate(train, start=1)
    ]
    tests = [
        f"Test {place}\nInput: {_format_grid(grid)}"
        for place, (grid, _) in enumerate(test, start=1)
    ]
    prompt = "\n\n".join([ASKED.format(several=several), *examples, *tests])
    answer = {"grids": [output for _, output in test]}
    return {"prompt": prompt, "answer": answer, "meta": read_meta(row, "id", "task_id", "name")}


def _pairs(value: Any, field: str) -> list[tuple[list[list[int]], list[list[int]]]]:
    pairs = []
    for place, pair in enumerate(value):
        grids = [pair.get(name) for name in ("input", "output")]
        for name, grid in zip(("input", "output"), grids, strict=True):
            if not is_grid(grid):
                raise NotThisLayout(
                    f"{field}.{place}.{name}: must be 1 to {MAX_SIDE} rows of as many whole "
                    "numbers from 0 to 9"
                )
        pairs.append((grids[0], grids[1]))
    return pairs


def is_grid(value: object) -> bool:
    """Tell whether the value is a rectangle of colours."""
    if not isinstance(value, list) or not 0 < len(value) <= MAX_SIDE:
        return False
    if not all(isinstance(line, list) and 0 < len(line) <= MAX_SIDE for line in value):
        return False
    colours = [colour for line in value for colour in line]
    are_colours = all(is_finite_number(colour) and colour in range(10) for colour in colours)
    return are_colours and len({len(line) for line in value}) == 1


def _format_grid(grid: list[list[int]]) -> str:
    return "[" + ",\n ".join("[" + ", ".join(map(str, line)) + "]" for line in grid) + "]"


LAYOUTS = (
    Layout(
        "checked-instructions",
        "IFEval, Tulu's RLVR mix: instructions that a program checks",
        _is_instructed,
        {TASKS: _instructed},
    ),
    Layout(
        "grids",
        "ARC-AGI: train and test, pairs of input and output grids",
        _is_grids,
        {TASKS: _grids},
    ),
)
