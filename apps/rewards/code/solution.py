"""Choose which block of an answer is the solution: the last complete program of the right language.

Examples, output, commands and tests that follow it are none; neither is what stands in the
thoughts.
"""

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from warnings import catch_warnings, simplefilter

from apps.rewards.code.blocks import Block, answered_part, blocks
from apps.rewards.sandbox.languages import by_fence

READS = {
    "python": r"\binput\s*\(|\bstdin\b|\bopen\s*\(\s*0|/dev/stdin|\bfileinput\b|\breadline\b",
    "javascript": r"\bstdin\b|readFileSync|readline|require\(",
    "c": r"\bmain\s*\(",
    "c++": r"\bmain\s*\(",
}
PRINTS = {
    "python": r"\bprint\s*\(|\bstdout\b",
    "javascript": r"console\.|process\.stdout",
    "c": r"\bmain\s*\(",
    "c++": r"\bmain\s*\(",
}
DEFINES = {
    "python": r"^[ \t]*+(?:async\s++def|def|class)\s++{name}\b|^{name}\s*+(?::[^=\n]*+)?+=(?!=)",
    "javascript": (
        r"\bfunction\s*+\*?+\s*+{name}\b|\b(?:const|let|var|class)\s++{name}\b|\b{name}\s*+[=:]"
    ),
}
# Blocks of these are output, commands or data.
NOT_CODE = frozenset(
    {
        *("bash", "sh", "shell", "zsh", "console", "terminal", "pycon"),
        *("text", "txt", "plaintext", "output", "input", "markdown", "md", "latex", "tex", "diff"),
        *("json", "yaml", "xml", "html", "css", "csv", "sql", "mermaid"),
    }
)
MAX_PARSED_LENGTH = 100_000  # characters


@dataclass(frozen=True)
class SolutionRequirements:
    """Requirements of the tests on a solution.

    `language`: "" for any that can be judged; `functions`: empty for a program.
    """

    language: str = ""
    functions: Sequence[str] = ()
    reads_input: bool = True


def solution(text: str, expected: SolutionRequirements) -> Block | None:
    """Return the code block that is the solution, or None if the answer has no code.

    If no block has what the tests need, it is the last block of code.
    """
    answered = answered_part(text)
    all_blocks = list(blocks(answered)) or [
        Block(inside, "", False) for inside in inside_answer(answered)
    ]
    whole = [block for block in all_blocks if block.is_closed or _is_whole(block, expected)]
    candidates = [
        block for block in whole if _may_be_in_language(block, expected)
    ] or _in_unknown_languages(whole, expected)
    for is_fit in _signs(expected):
        if fit := [block for block in candidates if is_fit(block, expected)]:
            return fit[-1]
    fenced = [block for block in candidates if block.fence]
    return next(reversed(fenced or candidates), None)


def inside_answer(text: str) -> list[str]:
    """List what stands in the last answer tags, where code may stand without a fence."""
    before, closed, _ = text.rpartition("</answer>")
    _, opened, inside = before.rpartition("<answer>")
    return [inside.strip("\r\n") + "\n"] if opened and closed else []


def _signs(expected: SolutionRequirements) -> list[Callable[[Block, SolutionRequirements], bool]]:
    """Return how a solution is known, the surest sign first."""
    if expected.functions:
        return [_defines]
    return [_reads, _prints] if expected.reads_input else [_prints]


def _may_be_in_language(block: Block, expected: SolutionRequirements) -> bool:
    """Tell whether a block may be code of the right language: one that names none may."""
    if not block.fence:
        return True
    language = by_fence(block.fence)
    if language is None:
        return False
    return not expected.language or language.name == expected.language


def _in_unknown_languages(
    all_blocks: Sequence[Block], expected: SolutionRequirements
) -> list[Block]:
    """Return blocks whose tag is no language that we run, if the task says which one to use."""
    if not expected.language:
        return []
    return [
        block
        for block in all_blocks
        if block.fence not in NOT_CODE and by_fence(block.fence) is None
    ]


def _language(block: Block, expected: SolutionRequirements) -> str:
    language = by_fence(block.fence)
    return language.name if language else expected.language or "python"


def _reads(block: Block, expected: SolutionRequirements) -> bool:
    return bool(re.search(READS[_language(block, expected)], block.code))


def _prints(block: Block, expected: SolutionRequirements) -> bool:
    return bool(re.search(PRINTS[_language(block, expected)], block.code))


def _defines(block: Block, expected: SolutionRequirements) -> bool:
    """Tell whether the block defines one of the functions."""
    pattern = DEFINES.get(_language(block, expected))
    if pattern is None:
        return any(_has_body(block.code, name) for name in expected.functions)
    names = "|".join(map(re.escape, expected.functions))
    return bool(re.search(pattern.replace("{name}", f"(?:{names})"), block.code, re.MULTILINE))


def _has_body(code: str, name: str) -> bool:
    """Tell whether the code defines the C or C++ function: name, parameters, and a brace."""
    parts = re.split(r"([;{}])", code)
    heads = [head for head, sign in zip(parts[::2], parts[1::2], strict=False) if sign == "{"]
    return any(re.search(rf"\b{re.escape(name)}\s*+[(=]", head) for head in heads)


def _is_whole(block: Block, expected: SolutionRequirements) -> bool:
    """Tell whether a block that the text ends in is a program: cut-off code seldom is."""
    if len(block.code) > MAX_PARSED_LENGTH:
        return False
    if _language(block, expected) != "python":
        return block.code.count("{") == block.code.count("}") > 0
    try:
        with catch_warnings():
            simplefilter("ignore")
            return bool(ast.parse(block.code).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
