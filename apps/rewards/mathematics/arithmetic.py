"""Do arithmetic with + − × ÷ and brackets on plain numbers, in exact fractions, and no other."""

from fractions import Fraction

from apps.rewards.mathematics import notation
from apps.rewards.mathematics.formulas import Node, NotAFormula, parse_formula
from apps.rewards.mathematics.values import NotExact, NoValue, exact

MAX_EXPRESSION_LENGTH = 400  # characters
KINDS = frozenset(("number", "+", "-", "*", "/"))


class NotArithmetic(ValueError):
    """Raised for a text that is no such formula, or has no value; says why."""


def evaluate_formula(text: str) -> Fraction:
    """Return the value of the formula.

    For "1+2 = 3" this is the value of the left side; the right side must have the same.

    Raises NotArithmetic.
    """
    formula, stated_result = _sides(text)
    value = _value(formula)
    if stated_result is not None and _value(stated_result) != value:
        raise NotArithmetic("the part after = has a different value")
    return value


def operands(text: str) -> list[Fraction]:
    """Return the numbers used, as often as they are. Raises NotArithmetic."""
    return list(_numbers(_sides(text)[0]))


def _sides(text: str) -> tuple[Node, Node | None]:
    cleaned = notation.clean(text)
    sides = [side for side in cleaned.split("=") if side.strip()]
    if not 1 <= len(sides) <= 2 or len(cleaned) > MAX_EXPRESSION_LENGTH or cleaned.count("=") > 1:
        raise NotArithmetic("not one formula")
    left, *right = [_read(side) for side in sides]
    return (
        (right[0], left) if right and left[0] == "number" else (left, right[0] if right else None)
    )


def _read(text: str) -> Node:
    try:
        node = parse_formula(text.strip())
    except NotAFormula as problem:
        raise NotArithmetic(str(problem)[:100]) from None
    if kind := next((kind for kind in _kinds(node) if kind not in KINDS), None):
        raise NotArithmetic(f"{kind} is not allowed")
    return node


def _kinds(node: Node):
    yield node[0]
    if node[0] not in ("number", "symbol", "constant"):
        for part in node[1:]:
            yield from _kinds(part)


def _numbers(node: Node):
    if node[0] == "number":
        yield node[1]
    else:
        for part in node[1:]:
            yield from _numbers(part)


def _value(node: Node) -> Fraction:
    try:
        return exact(node)
    except (NoValue, NotExact) as problem:
        raise NotArithmetic(str(problem) or "it has no value") from None
