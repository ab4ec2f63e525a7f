"""Where the code stands in an answer: in its fenced blocks."""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

OPENING = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*([^\s`]*)[^`\n]*$")


@dataclass(frozen=True)
class Block:
    """`fence`: the word behind the opening marks, "" when there is none."""

    code: str
    fence: str


def last_block(text: str) -> Block | None:
    """The last of `closed_blocks`; None: no block."""
    return next(iter(deque(closed_blocks(text), maxlen=1)), None)


def closed_blocks(text: str) -> Iterator[Block]:
    """Those that are opened and closed by the same marks, three or more of ` or ~ on lines of their own, in order.

    A block that was cut off before its closing marks is no code, and hides none that came before.
    """
    opened, begun = None, 0
    lines = text.split("\n")
    for place, line in enumerate(lines):
        if opened is None:
            opened, begun = OPENING.match(line), place + 1
        elif _closes(line, opened[1]):
            yield Block("\n".join(lines[begun:place]) + "\n", opened[2])
            opened = None


def _closes(line: str, marks: str) -> bool:
    closing = line.strip()
    return len(closing) >= len(marks) and set(closing) == {marks[0]}
