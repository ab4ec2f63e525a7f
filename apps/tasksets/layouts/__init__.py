"""Layouts in which tasks and lessons are shared: one registry, each layout a small description.

    contract       what a layout is
    own            our own columns, and the files that we export
    annotated      what annotation tools export
    comparisons    several answers to one prompt
    ranked         preferences in lists
    oasst          trees of messages
    answers        one answer to a prompt
    step_tags      one answer with a label for each step
    questions      prompts with a right answer
    programs       prompts with tests of programs
    choices        questions with answers to choose from
    passages       questions about texts
    contests       questions with answers in forms of their own
    checked        instructions and grids, which are checked in ways of their own
    unjudged       what no scorer can judge
    gathering      several rows that are one
    conversations  messages in their many forms
    context        what stands beside a prompt: system texts, earlier turns, tools, pictures
    quality        what people found bad

All of it is pure: a row in, rows in our columns out. A layout is chosen once for a file, by its
first rows.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from apps.tasksets.layouts import (
    annotated,
    answers,
    checked,
    choices,
    comparisons,
    contests,
    oasst,
    own,
    passages,
    programs,
    questions,
    ranked,
    step_tags,
    unjudged,
)
from apps.tasksets.layouts.context import taken_from, with_context
from apps.tasksets.layouts.contract import (
    DEMONSTRATIONS,
    KINDS,
    PREFERENCES,
    TASKS,
    THUMBS,
    Layout,
    NotThisLayout,
    Row,
    RowReading,
    TrackedRow,
    count_dropped,
)
from apps.tasksets.layouts.conversations import read_prompt_messages
from apps.tasksets.layouts.quality import require_good

LOOKED_AT = 20  # rows by which a file's layout is told
# Telling layouts first: each row is of the first one that it matches.
LAYOUTS: tuple[Layout, ...] = (
    *own.EXPORTS,
    *annotated.LAYOUTS,
    *oasst.LAYOUTS,
    *ranked.LAYOUTS,
    *comparisons.SPECIAL,
    *step_tags.LAYOUTS,
    *answers.SPECIAL,
    *unjudged.LAYOUTS,
    *checked.LAYOUTS,
    *questions.LIBRARIES,
    *programs.SPECIAL,
    *choices.LAYOUTS,
    *passages.LAYOUTS,
    *contests.LAYOUTS,
    *questions.SPECIAL,
    *own.OWN,
    *comparisons.GENERAL,
    *answers.GENERAL,
    *questions.GENERAL,
)
BY_NAME: Mapping[str, Layout] = {layout.name: layout for layout in LAYOUTS}
# How rows are read that are of no known layout, or not of their file's: these say what is missing.
PLAIN = {kind: next(layout for layout in own.OWN if kind in layout.reads) for kind in KINDS}


def layouts_for(kind: str) -> list[Layout]:
    return [layout for layout in LAYOUTS if kind in layout.reads]


def find_layout(row: Mapping[str, Any], kind: str) -> Layout | None:
    """Return the layout of one row, for this kind of rows."""
    layouts = layouts_for(kind)
    spellings = (dict(row), in_lower_case(row))
    return next(
        (layout for spelling in spellings for layout in layouts if layout.matches(spelling)), None
    )


def in_lower_case(row: Mapping[str, Any]) -> Row:
    """Return the row with its fields' names in lower case; {} where two would be the same."""
    lowered = {name.lower(): value for name, value in row.items()}
    return lowered if len(lowered) == len(row) else {}


def recognised(rows: Sequence[Mapping[str, Any]], kind: str) -> Layout | None:
    """Return the layout of most of these rows; None where they are of none."""
    counts = Counter(layout.name for row in rows[:LOOKED_AT] if (layout := find_layout(row, kind)))
    return BY_NAME[counts.most_common(1)[0][0]] if counts else None


def read_row(layout: Layout | None, fields: Row, kind: str, taking: RowReading) -> list[Row]:
    """Return the row in our columns, mostly as one row. Raises NotThisLayout.

    A task must be of its file's layout. Other rows that are not are read by our own columns, so
    that the error names what is missing.
    """
    if layout is not None and layout.gathering is not None:
        layout = BY_NAME[layout.gathering.into]
    if layout is not None and not layout.matches(fields):
        lowered = in_lower_case(fields)
        fields = lowered if layout.matches(lowered) else fields
    if layout is not None and not layout.matches(fields):
        if kind == TASKS:
            raise NotThisLayout(f"the row does not match the file's layout, {layout.title}")
        layout = None
    layout = layout or PLAIN[kind]
    row = TrackedRow(fields)
    result = layout.reads[kind](row, taking)
    rows = result if isinstance(result, list) else [result]
    used = frozenset(row.read)
    if kind == DEMONSTRATIONS and not layout.judges_itself:
        require_good(row, taking)
    rows = [_with_prompt(row_read, fields, used, taking) for row_read in rows]
    present = {name for name, value in fields.items() if value is not None}
    taking.dropped.update(present - row.read - taken_from(fields, used))
    return rows


def _with_prompt(row_read: Row, fields: Row, used: frozenset[str], taking: RowReading) -> Row:
    if row_read.get("prompt") is None:
        return row_read
    messages = read_prompt_messages(row_read["prompt"], "prompt", taking)
    return {**row_read, "prompt": with_context(messages, fields, used, taking)}


__all__ = [
    "BY_NAME",
    "DEMONSTRATIONS",
    "KINDS",
    "LAYOUTS",
    "PLAIN",
    "PREFERENCES",
    "TASKS",
    "THUMBS",
    "Layout",
    "NotThisLayout",
    "RowReading",
    "count_dropped",
    "find_layout",
    "layouts_for",
    "read_row",
    "recognised",
]
