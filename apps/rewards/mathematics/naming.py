"""Tell names (x, AB, f(3), |CD|, \\sin B) from formulas that still hold something unknown."""

import re

from apps.rewards.mathematics import notation, values
from apps.rewards.mathematics.formulas import Node
from apps.rewards.mathematics.shapes import (
    Items,
    Matrix,
    NamedSet,
    Ratio,
    Relation,
    Shape,
    Unread,
    Value,
    Words,
)

UNKNOWNS = frozenset("xyz")  # of an equation to be solved; other letters stand for numbers
_LEAVES = ("number", "constant", "symbol", "based")
_FUNCTION = re.compile(
    r"\\?(?P<name>[a-zA-Z]{1,3})'{0,3}(?:_\{?\w{1,8}\}?)?(?:\^\{?-1\}?)?\s?"
    r"\((?P<inside>[^=<>]{1,80})\)"
)
_PROBABILITY = re.compile(
    r"(?:\\Pr|Pr|\\mathbb\{[PE]\}|[PE])\s?[(\[](?:\\text\s?)?[^()\[\]]{1,80}[)\]]"
)
_DERIVATIVE = re.compile(r"\\frac\s?\{d\s?[a-zA-Z]?\}\s?\{d\s?[a-zA-Z]\}")
_SEGMENT = re.compile(r"\|?\s?(?:\\(?:overline|bar)\s?\{)?\s?([A-Z]{2})\s?\}?\s?\|?")
_CONSTANT = re.compile(r"(?<=\+)\s?(?:C|c|\\text\s?\{\s?const(?:ant)?\.?\s?\})$")
_WHOLE = re.compile(
    r"\s?[,;]?\s?(?:\\text\s?\{\s?(?:where|for|with|for any integer|for integers?)\s?\})?\s?\(?\s?"
    r"([kmnlj])\s?\\in\s?\\mathbb\{Z\}\s?\)?$"
)
_COUNTER = re.compile(r"(?<![a-zA-Z\\])([kmnlj])(?![a-zA-Z])")
_FUNCTION_NAMES = frozenset("fghpqFGHPQTEVWSNM")
_NAME_PARTS = frozenset(
    {
        "symbol",
        "*",
        "/",
        "+",
        "-",
        "abs",
        "call",
        "sin",
        "cos",
        "tan",
        "cot",
        "sec",
        "csc",
        "log",
        "ln",
        "log10",
        "asin",
        "acos",
        "atan",
        "constant",
    }
)


def is_name(side: Shape) -> bool:
    """Tell whether this names what is asked for, rather than saying something about an unknown."""
    if isinstance(side, Unread):
        return _PROBABILITY.fullmatch(side.text) is not None
    if isinstance(side, Words):
        return bool(re.search(r"[^\W\d]", side.text)) and len(side.text) <= 80
    if isinstance(side, Items):
        return bool(side.items) and all(is_name(item) for item in side.items)
    if isinstance(side, Ratio):
        return all(is_name(part) for part in side.parts)
    if not isinstance(side, Value):
        return False
    if _DERIVATIVE.fullmatch(side.text.strip()):
        return True
    if side.node[0] == "symbol" or side.node in (("constant", "i"), ("constant", "e")):
        return True
    if function := _FUNCTION.fullmatch(side.text.strip()):
        inside = function["inside"].strip()
        if function["name"][0] in _FUNCTION_NAMES or re.fullmatch(r"\\?\w{1,8}", inside):
            return True
    if not _kinds(side.node) <= _NAME_PARTS or _kinds(side.node) <= {"constant", "*", "/", "-"}:
        return False
    if side.node == ("abs", ("symbol", "z")):  # the usual letter of complex numbers
        return True
    return not values.symbols(side.node) & UNKNOWNS and bool(values.symbols(side.node))


def is_same_name(first: Shape, second: Shape) -> bool:
    """Tell whether two spellings name the same thing: |AB| and BA, y and f(x)."""
    if not (isinstance(first, Value) and isinstance(second, Value)):
        return False
    segments = [_segment(side.text) for side in (first, second)]
    if segments[0] or segments[1]:
        return segments[0] == segments[1]
    texts = sorted(re.sub(r"\s", "", side.text) for side in (first, second))
    if re.fullmatch(rf"{re.escape(texts[0])}_\{{?\d\}}?", texts[1]) and len(texts[0]) == 1:
        return True  # x_1 is one of the values of x
    return texts[1] == "y" and re.fullmatch(r"[fgh]\(x\)", texts[0]) is not None


def _segment(text: str) -> str:
    """Return the end points of a segment whose length is meant, sorted; "" for anything else."""
    match = _SEGMENT.fullmatch(text.strip())
    return "".join(sorted(match[1])) if match else ""


def _kinds(node: Node) -> frozenset[str]:
    if node[0] in _LEAVES:
        return frozenset((node[0],))
    if node[0] == "log":
        return frozenset(("log",)) | _kinds(node[1])  # whatever the base is
    parts = [part for part in node[1:] if isinstance(part, tuple)]
    return frozenset((node[0],)).union(*(_kinds(part) for part in parts))


def is_closed(side: Shape) -> bool:
    """Tell whether nothing unknown is in it."""
    match side:
        case Value():
            return not values.symbols(side.node)
        case Items():
            return all(is_closed(item) for item in side.items)
        case Matrix():
            return all(is_closed(cell) for row in side.rows for cell in row)
        case Ratio():
            return all(is_closed(part) for part in side.parts)
        case Words() | NamedSet():
            return True
    return False


def is_assignment(relation: Shape) -> bool:
    """Tell whether the relation has a name on the left: x = 5, f(x) = 2x, |CD| = 4."""
    if not isinstance(relation, Relation) or not set(relation.signs) <= {"=", "\\approx"}:
        return False
    return is_name(relation.sides[0])


def is_solved(relation: Relation) -> bool:
    """Tell whether one side is a name and the others hold no unknown: x = 6, 0 < g(x) < 2."""
    names = [side for side in relation.sides if is_name(side) and not is_closed(side)]
    other_sides = [side for side in relation.sides if side not in names]
    return len(names) == 1 and bool(other_sides) and all(is_closed(side) for side in other_sides)


def list_candidate_values(expected: Relation) -> list[Shape]:
    """List the values that may stand for this answer: 8 for f(3) = 8, both sides of ≈."""
    if not set(expected.signs) <= {"=", "\\approx"}:
        return []
    sides = list(expected.sides)
    if is_assignment(expected):
        sides = sides[1:]
    elif is_name(sides[-1]) and not is_closed(sides[-1]):
        sides = sides[:-1]
    elif not all(is_closed(side) for side in sides):
        return []
    return sides[-1:] if "\\approx" not in expected.signs else sides


def has_pi(node: Node) -> bool:
    if node[0] in _LEAVES:
        return node == ("constant", "pi")
    return any(has_pi(part) for part in node[1:] if isinstance(part, tuple))


def with_usual_letters(text: str) -> str | None:
    """Return the formula with C for a constant of integration, and n for the whole number of
    kπ, k ∈ ℤ; None where it has neither."""
    text = notation.clean(text).rstrip(".,; ")
    renamed = _CONSTANT.sub("C", text)
    declared = _WHOLE.search(renamed)
    renamed = renamed[: declared.start()] if declared else renamed
    counters = set(_COUNTER.findall(renamed))
    if (declared and counters == {declared[1]}) or (len(counters) == 1 and "\\pi" in renamed):
        renamed = _COUNTER.sub("n", renamed)
    elif renamed == text and not renamed.endswith("C"):
        return None
    return renamed
