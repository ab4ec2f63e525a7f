"""Find the brackets of LaTeX that belong together, and split formulas outside of them."""

import re

DEEPEST = 24  # braces around all of a text that are taken away
_STEP = re.compile(
    r"\\begin\{[a-z]*matrix\}|\\end\{[a-z]*matrix\}|\\begin\{array\}|\\end\{array\}"
    r"|\\[a-zA-Z]+|\\.|.",
    re.DOTALL,
)


def strip_braces(text: str) -> str:
    """Take away the braces of LaTeX alone around all of it."""
    for _ in range(DEEPEST):
        if not text.startswith("{") or find_end(text) != len(text):
            break
        text = text[1:-1].strip()
    return text


def find_end(text: str) -> int | None:
    """Return the place behind the bracket that closes the one in front; None where none does."""
    depth = 0
    for step in _STEP.finditer(text):
        depth += _change(step.group())
        if not depth:
            return step.end()
    return None


def _change(token: str) -> int:
    if token in ("(", "[", "{", "\\{", "\\langle") or token.startswith("\\begin"):
        return 1
    return -1 if token in (")", "]", "}", "\\}", "\\rangle") or token.startswith("\\end") else 0


def split_outside_brackets(text: str, at: tuple[str, ...]) -> list[str]:
    """Split at these signs outside of brackets."""
    return split_with_signs(text, at)[0]


def split_with_signs(text: str, at: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Split at these signs outside of brackets; return the parts and the signs between them."""
    parts: list[str] = []
    signs: list[str] = []
    begin = 0
    depth = 0
    for step in _STEP.finditer(text):
        token = step.group()
        depth += _change(token)
        if depth == 0 and token in at:
            parts.append(text[begin : step.start()])
            signs.append(token)
            begin = step.end()
    return [*parts, text[begin:]], signs
