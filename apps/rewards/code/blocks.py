"""Find the code in an answer: its fenced blocks, and which of them is the solution."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from apps.rewards.final_answer import THOUGHTS

OPENING = re.compile(
    r"^(?P<before>[ \t]*+(?:>[ \t]?+)*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]++)?)"
    r"(?P<marks>`{3,}+|~{3,}+)[ \t]*+(?P<info>[^`\n]*+)$"
)
# Opening marks behind words, which only a language's name tells from code within a line.
BEHIND_WORDS = re.compile(
    r"^[^`]*+(?P<before>)(?P<marks>`{3,}+)(?P<info>[A-Za-z][\w+#.]*+)[ \t]*+$"
)
# Tags on the line of the marks: <answer>```python … ```</answer>.
TAG_BEFORE = re.compile(r"^[ \t]*<[a-z_]{1,20}>[ \t]*(?=`{3}|~{3})", re.MULTILINE | re.IGNORECASE)
TAG_BEHIND = re.compile(
    r"^([ \t]*(?:`{3,}+|~{3,}+))[ \t]*(?:</?[a-z_]{1,20}>|<\|[a-z_]{1,20}\|>)[ \t\r]*$",
    re.MULTILINE | re.IGNORECASE,
)
WORD = re.compile(r"[{.\s]*(?P<word>[A-Za-z][A-Za-z]*[+#]*)(?P<version>[\d.]*)")
DOCUMENTS = ("markdown", "md")  # whose own blocks are the answer's
DEEPER = 3  # blanks by which closing marks may stand to the right of the opening ones


@dataclass(frozen=True)
class Block:
    """Code block; `fence`: its language in lower case, without a version.

    `is_closed`: False for one that the text ends in.
    """

    code: str
    fence: str
    is_closed: bool = True


def blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks in order: three or more of ` or ~, also in a list or a quotation.

    What stands before every line of a block, its indentation in a list for one, is no part of
    the code. A document in a block counts as the blocks that are in it.
    """
    text = TAG_BEHIND.sub(r"\1", TAG_BEFORE.sub("", text))
    for block in _outer_blocks(text):
        inside = list(_outer_blocks(block.code)) if block.fence in DOCUMENTS else []
        yield from inside or [block]


def _outer_blocks(text: str) -> Iterator[Block]:
    lines = text.split("\n")
    opening = None
    begun = 0
    for place, line in enumerate(lines):
        if opening is None:
            opening = OPENING.match(line) or BEHIND_WORDS.match(line)
            begun = place + 1
        elif _closes(line, opening):
            yield _block(lines[begun:place], opening, is_closed=True)
            opening = None
        elif (last := _before_closing(line, opening["marks"])) is not None:
            yield _block([*lines[begun:place], last], opening, is_closed=True)
            opening = None
    if opening is not None:
        yield _block(lines[begun:], opening, is_closed=False)


def closed_blocks(text: str) -> Iterator[Block]:
    """Yield those that are opened and closed."""
    return (block for block in blocks(text) if block.is_closed)


def _closes(line: str, opening: re.Match) -> bool:
    closing = line.strip(" \t\r>")
    marks = opening["marks"]
    if len(closing) < len(marks) or set(closing) != {marks[0]}:
        return False
    return _indent(line) <= len(opening["before"]) + DEEPER


def _before_closing(line: str, marks: str) -> str | None:
    """Return the code in front of closing marks that stand at its line's end."""
    code = line.rstrip().removesuffix(marks)
    return code if len(code) < len(line.rstrip()) and "`" not in code and code.strip() else None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t>"))


def _block(lines: Sequence[str], opening: re.Match, *, is_closed: bool) -> Block:
    if ">" in opening["before"]:
        lines = [re.sub(r"^[ \t]*(?:>[ \t]?)+", "", line) for line in lines]
    common = min((_indent(line) for line in lines if line.strip()), default=0)
    cut = min(len(opening["before"]), common)
    word = WORD.match(opening["info"])
    fence = word["word"].lower() if word else ""
    code = "\n".join(line[cut:] for line in lines).removeprefix("\ufeff")
    return Block(f"{code}\n", fence, is_closed)


def answered_part(text: str) -> str:
    """Return the text after the thoughts; "" if thoughts begin and never end."""
    for opening, closing in THOUGHTS:
        text = text.rpartition(closing)[2]
        if opening in text:
            return ""
    return text
