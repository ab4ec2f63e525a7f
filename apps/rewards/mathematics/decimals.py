"""Compare decimals with the exact values that they were rounded from."""

import math
from fractions import Fraction

from apps.rewards.mathematics import shapes, values
from apps.rewards.mathematics.shapes import Shape, Value

FINE = Fraction(1, 10**6)  # a decimal at least as fine as this may stand for what rounds to it
DOUBLE_DIGITS = 15  # from so many on a decimal is a double of 64 bits, printed
DOUBLE_ERROR = Fraction(4, 2**52)  # relative: some roundings in a row


def rounds_to(expected: Value, answer: Value) -> bool:
    """Tell whether one is a decimal of six places or more that the other rounds to."""
    if values.symbols(expected.node) or values.symbols(answer.node):
        return False
    return _is_rounded(answer, expected) or _is_rounded(expected, answer)


def _is_rounded(written: Value, unrounded: Value) -> bool:
    decimal = shapes.number_written(written)
    if decimal is None or written.is_percent or written.node[0] == "%":
        return False
    number, power, digits = decimal
    last = Fraction(10) ** power
    if last > FINE * max(Fraction(1), abs(number)):
        return False
    value = _exact(unrounded)
    if value is None:
        return False
    allowed = last / 2 + last / 10**9
    if digits >= DOUBLE_DIGITS:
        allowed = max(allowed, abs(value) * DOUBLE_ERROR)
    return abs(value - number) <= allowed


def is_near(exact: Shape, written: Shape) -> bool:
    """Tell whether the decimal behind ≈ is the exact value, rounded or cut off."""
    if not isinstance(exact, Value) or not isinstance(written, Value):
        return False
    value = _exact(exact)
    written_value = _exact(written)
    if value is None or written_value is None:
        return False
    decimal = shapes.number_written(written)
    last = Fraction(10) ** decimal[1] if decimal else Fraction(1)
    places = abs(value) / last
    return abs(written_value) / last in (math.floor(places), math.floor(places + Fraction(1, 2)))


def _exact(value: Value) -> Fraction | None:
    """Return the value as a fraction, to 50 digits if it is irrational."""
    try:
        return values.exact(value.node)
    except values.NoValue:
        return None
    except values.NotExact:
        pass
    import mpmath

    try:
        number = values.numeric(value.node)
        if hasattr(number, "_mpc_"):
            return None
        return Fraction(mpmath.nstr(number, values.DIGITS - 10))
    except (values.NoValue, ValueError):
        return None


def within(expected: Value, answer: Value, tolerance: float) -> bool:
    """Tell whether the answer is within the relative tolerance of the expected value."""
    if not tolerance or values.symbols(expected.node) or values.symbols(answer.node):
        return False
    try:
        expected_number = values.numeric(expected.node)
        answer_number = values.numeric(answer.node)
    except values.NoValue:
        return False
    return bool(
        abs(expected_number - answer_number) <= tolerance * (1 + 1e-12) * abs(expected_number)
    )
