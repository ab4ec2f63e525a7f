"""Read shapes as sets of real numbers, and compare them as such."""

from typing import Any

from apps.rewards.mathematics import naming, realsets, values
from apps.rewards.mathematics.realsets import Interval, RealSet
from apps.rewards.mathematics.shapes import (
    EMPTY,
    Builder,
    Items,
    NamedSet,
    Relation,
    SetOperation,
    Shape,
    Value,
)

MAX_PARTS = 60
OPEN = {"<": False, ">": False, "\\le": True, "\\ge": True}  # whether the end belongs


class NoSet(ValueError):
    """Raised for a shape that is no set of real numbers with known ends."""


def same_set(expected: Shape, answer: Shape) -> bool:
    """Tell whether both are one set of real numbers; where each names a variable, the same one."""
    if isinstance(expected, Value) or isinstance(answer, Value):
        return False
    try:
        expected_set = real_set(expected)
        answer_set = real_set(answer)
    except NoSet:
        return False
    names = _names(expected), _names(answer)
    if any(len(variables) > 1 for variables in names):  # x = 1, y = 2 is no set of numbers
        return False
    if all(names) and names[0] != names[1]:
        return False
    return expected_set.equals(answer_set)


def _names(shape: Shape) -> frozenset[str]:
    """Name what the conditions are about."""
    match shape:
        case Relation():
            unknowns = [side for side in shape.sides if not naming.is_closed(side)]
            return frozenset(side.text for side in unknowns if isinstance(side, Value))
        case Items() if not shape.left:
            return frozenset().union(*(_names(item) for item in shape.items))
    return frozenset()


def is_empty(shape: Shape) -> bool:
    """Tell whether the shape is read as a set of real numbers that has none."""
    try:
        return real_set(shape).is_empty
    except NoSet:
        return False


def real_set(shape: Shape) -> RealSet:
    """Read a shape as a set of real numbers. Raises NoSet."""
    match shape:
        case NamedSet():
            return realsets.empty_set() if shape.name == EMPTY else realsets.everything()
        case Builder():
            return real_set(shape.condition)
        case SetOperation() if len(shape.parts) <= MAX_PARTS:
            return _combined(shape)
        case Relation():
            return _of_relation(shape)
        case Items():
            return _of_items(shape)
        case Value():
            return realsets.set_of_points([_number(shape)])
    raise NoSet


def _combined(shape: SetOperation) -> RealSet:
    combined = real_set(shape.parts[0])
    for sign, part in zip(shape.signs, shape.parts[1:], strict=True):
        part_set = real_set(part)
        if sign == "\\cup":
            combined = realsets.union([combined, part_set])
        elif sign == "\\cap":
            combined = realsets.intersection([combined, part_set])
        else:
            combined = realsets.difference(combined, part_set)
    return combined


def _of_items(shape: Items) -> RealSet:
    """Read {1, 2}, (1, 2] and lists of conditions: x < 1 or x > 3."""
    if shape.left == "\\{":
        if not all(isinstance(item, Value) for item in shape.items):
            raise NoSet
        return realsets.union([real_set(item) for item in shape.items])
    if not shape.left:
        return _of_conditions(shape)
    if len(shape.items) != 2:
        raise NoSet
    low, high = (_number(item) for item in shape.items)
    if low > high:
        raise NoSet
    return realsets.join_intervals([Interval(low, high, shape.left == "[", shape.right == "]")])


def _of_conditions(shape: Items) -> RealSet:
    """Join conditions by "or"; "and" meets them, and so does a comma if they have values in common.

    "x = 2 and x = 3" lists two solutions; "x < 1 and x > 2" has none.
    """
    if not all(isinstance(item, Relation | Items | SetOperation) for item in shape.items):
        raise NoSet
    sets = [real_set(item) for item in shape.items]
    if shape.link == "or":
        return realsets.union(sets)
    common = realsets.intersection(sets)
    has_conditions = all(isinstance(item, Relation) for item in shape.items)
    if not has_conditions or (common.is_empty and not has_bounds_to_meet(shape)):
        return realsets.union(sets)
    return common


def has_bounds_to_meet(shape: Items) -> bool:
    """Tell whether these are bounds that must all hold: x > 1 and x < 3."""
    return shape.link == "and" and all(map(is_bound, shape.items))


def is_bound(shape: Shape) -> bool:
    """Tell whether this is an inequality between numbers."""
    return isinstance(shape, Relation) and bool(shape.signs) and set(shape.signs) <= set(OPEN)


def _of_relation(shape: Relation) -> RealSet:
    sides = shape.sides
    signs = shape.signs
    unknown_places = [place for place, side in enumerate(sides) if not naming.is_closed(side)]
    if (
        len(unknown_places) != 1
        or not _is_variable(sides[unknown_places[0]])
        or shape.modulus is not None
    ):
        raise NoSet
    if len(sides) == 2 and signs[0] in ("=", "\\ne"):
        point = real_set(sides[1 - unknown_places[0]])
        return point if signs[0] == "=" else realsets.complement(point)
    if not set(signs) <= set(OPEN) or len(sides) > 3 or (len(sides) == 3 and unknown_places != [1]):
        raise NoSet
    halves = []
    for place, sign in enumerate(signs):
        number_place = place if place < unknown_places[0] else place + 1
        bounds_above = (sign in ("<", "\\le")) == (number_place > unknown_places[0])
        halves.append(_half(_number(sides[number_place]), OPEN[sign], bounds_above))
    return realsets.intersection(halves)


def _is_variable(side: Shape) -> bool:
    """Tell whether the side is the set's variable, x or g(x), with nothing left to be solved."""
    return isinstance(side, Value) and naming.is_name(side) and side.node[0] != "abs"


def _half(end: Any, is_closed: bool, bounds_above: bool) -> RealSet:
    import mpmath

    if bounds_above:
        return realsets.join_intervals([Interval(-mpmath.inf, end, False, is_closed)])
    return realsets.join_intervals([Interval(end, mpmath.inf, is_closed, False)])


def _number(shape: Shape) -> Any:
    if not isinstance(shape, Value) or values.symbols(shape.node):
        raise NoSet
    try:
        number = values.numeric(shape.node)
    except values.NoValue:
        raise NoSet from None
    if hasattr(number, "_mpc_"):
        raise NoSet
    return number
