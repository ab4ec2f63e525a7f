"""Compare ratios, and find the constant factor between two formulas.

Hours and minutes, 3:45, are no ratio unless one is asked for.
"""

import re

from apps.rewards.mathematics import clock, units, values
from apps.rewards.mathematics.shapes import Ratio, Shape, Value, Words


def is_same_ratio(expected: Shape, answer: Shape, *, are_asked: bool) -> bool:
    """Compare ratios by proportion, a ratio of two with its quotient, and times of day as text.

    Where no ratio is asked for, 12:1 is not the number 12.
    """
    if isinstance(expected, Ratio) and isinstance(answer, Ratio):
        if _may_be_time(expected) and not are_asked:
            return _times(expected) == _times(answer)
        return len(expected.parts) == len(answer.parts) and _proportional(expected, answer)
    ratio, other = (expected, answer) if isinstance(expected, Ratio) else (answer, expected)
    if not isinstance(ratio, Ratio):
        return False
    if isinstance(other, Words):
        return clock.is_same_time(_text(ratio), other.text)
    if not isinstance(other, Value) or other.unit or len(ratio.parts) != 2:
        return False
    division = ("/", ratio.parts[0].node, ratio.parts[1].node)
    if _may_be_time(ratio) and not are_asked:
        return other.node == division
    if ratio is answer and _is_whole(other) and not are_asked:
        return False
    return values.has_same_value(division, other.node)


def _may_be_time(ratio: Ratio) -> bool:
    """Tell whether a ratio may be a time of day, such as 3:45."""
    return bool(re.fullmatch(r"\d{1,2}:[0-5]\d", _text(ratio)))


def _text(ratio: Ratio) -> str:
    return ":".join(part.text for part in ratio.parts)


def _times(ratio: Ratio) -> list[tuple]:
    return [(part.text, units.parse_unit(part.unit)) for part in ratio.parts]


def _proportional(expected: Ratio, answer: Ratio) -> bool:
    if [part.unit for part in expected.parts] != [part.unit for part in answer.parts]:
        return False
    first = ("/", answer.parts[0].node, expected.parts[0].node)
    return all(
        values.has_same_value(("*", expected_part.node, first), answer_part.node)
        for expected_part, answer_part in zip(expected.parts, answer.parts, strict=True)
    )


def _is_whole(side: Value) -> bool:
    """Tell whether it is written as a whole number."""
    node = side.node[1] if side.node[0] == "-" else side.node
    return node[0] == "number" and node[1].denominator == 1


def constant_factor(expected: tuple, answer: tuple) -> float:
    """Return the constant factor of the expected formula to the answer; 0 if there is none."""
    names = sorted(values.symbols(expected) | values.symbols(answer))
    if not names or values.symbols(expected) != values.symbols(answer):
        return 0.0
    first = values.choose_test_points(names)[0]
    try:
        top = values.exact(expected, first)
        bottom = values.exact(answer, first)
    except (values.NotExact, values.NoValue):
        return _plain_factor(expected, answer)
    if not top or not bottom:
        return 0.0
    factor = top / bottom
    scaled = ("*", ("number", factor, str(factor)), answer)
    return float(factor) if values.has_same_value(expected, scaled) else 0.0


def _plain_factor(expected: tuple, answer: tuple) -> float:
    """Return 1 for equal values, -1 for opposite ones, 0 for others.

    It serves values that are no fractions, where only a change of sides can be recognised.
    """
    if values.has_same_value(expected, answer):
        return 1.0
    return -1.0 if values.has_same_value(expected, ("-", answer)) else 0.0
