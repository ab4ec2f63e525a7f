"""Compare a program's output with the wanted one, outside of the guest that ran it."""

import math
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

# Possessive, as a program may print millions of digits: no digit is tried twice.
NUMBER = re.compile(r"[+-]?+(?:\d++\.?+\d*+|\.\d++)(?:[eE][+-]?+\d{1,3}+)?+", re.ASCII)
WHOLE = re.compile(r"[+-]?+\d++", re.ASCII)
ROUNDING = 1e-9  # relative, or absolute below 1: what the order of floating-point sums changes
# A wanted float with so many decimals may have been rounded to them.
ROUNDED_DECIMALS = 6
MAX_DIGITS = 400  # of a number that is compared as one; longer ones are compared as texts
Whitespace = Literal["lines", "tokens", "exact"]


@dataclass(frozen=True)
class Rule:
    """Rule by which outputs and values are compared.

    float_tolerance  of floats, relative to the wanted one, or absolute below 1; None allows for
                     rounding alone, 0 for nothing. Whole numbers are always exact
    is_unordered     the lines of an output, or the parts of a list, may come in any order; a set
                     is a list then
    whitespace       "lines" ignores it at the ends of lines and blank lines at the end, "tokens"
                     counts any for one blank, "exact" ignores none
    """

    float_tolerance: float | None = None
    is_unordered: bool = False
    whitespace: Whitespace = "lines"


# -- outputs of programs ---------------------------------------------------------------------------


def same_text(actual: str, expected: str, rule: Rule) -> bool:
    """Return whether a program's output is the wanted one."""
    lines = _lines(actual, rule)
    expected_lines = _lines(expected, rule)
    if rule.is_unordered:
        lines = sorted(lines)
        expected_lines = sorted(expected_lines)
    if lines == expected_lines:
        return True
    if rule.float_tolerance == 0 or rule.whitespace == "exact" or len(lines) != len(expected_lines):
        return False
    return all(
        _close_lines(line, expected_line, rule)
        for line, expected_line in zip(lines, expected_lines, strict=True)
    )


def _lines(text: str, rule: Rule) -> list[str]:
    if rule.whitespace == "exact":
        return text.split("\n")
    if rule.whitespace == "tokens" and not rule.is_unordered:
        return [" ".join(text.split())]
    squeeze = " ".join if rule.whitespace == "tokens" else None
    lines = [squeeze(line.split()) if squeeze else line.rstrip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _close_lines(actual: str, expected: str, rule: Rule) -> bool:
    """Compare number by number; the blanks between them must be the same."""
    if actual == expected:
        return True
    words = re.split(r"(\s+)", actual)
    expected_words = re.split(r"(\s+)", expected)
    if len(words) != len(expected_words):
        return False
    return all(
        _close_words(word, expected_word, rule)
        for word, expected_word in zip(words, expected_words, strict=True)
    )


def _close_words(actual: str, expected: str, rule: Rule) -> bool:
    if actual == expected:
        return True
    if max(len(actual), len(expected)) > MAX_DIGITS:
        return False
    if not NUMBER.fullmatch(actual) or not NUMBER.fullmatch(expected):
        return False
    if WHOLE.fullmatch(expected) and (WHOLE.fullmatch(actual) or rule.float_tolerance is None):
        return False
    return _close(Fraction(Decimal(actual)), Fraction(Decimal(expected)), expected, rule)


# -- values of functions ---------------------------------------------------------------------------


def is_same_json(actual: Any, expected: Any, rule: Rule) -> bool:
    """Return whether a value is the wanted one of JSON.

    1 and 1.0 are the same, true is neither; a tuple is a list; `is_unordered` holds for the
    outermost list, and makes a set, anywhere, the list of its parts.
    """
    if (
        rule.is_unordered
        and isinstance(actual, list | tuple | deque)
        and isinstance(expected, list)
    ):
        return _same_parts(list(actual), expected, rule)
    return _same_values(actual, expected, rule)


def _same_parts(actual: Sequence[Any], expected: Sequence[Any], rule: Rule) -> bool:
    if len(actual) != len(expected):
        return False
    parts = sorted(actual, key=_order)
    expected_parts = sorted(expected, key=_order)
    return all(
        _same_values(part, expected_part, rule)
        for part, expected_part in zip(parts, expected_parts, strict=True)
    )


def _order(value: Any) -> tuple:
    """Return what sorts values of any kinds: a kind, a number, a text, and the same of the
    parts.
    """
    if isinstance(value, set | frozenset):
        return (2, 0, "", tuple(sorted(map(_order, value))))
    if isinstance(value, list | tuple | deque):
        return (2, 0, "", tuple(map(_order, value)))
    if isinstance(value, dict):
        pairs = [(str(_key_of_json(key)), _order(part)) for key, part in value.items()]
        return (3, 0, "", tuple(sorted(pairs)))
    if _is_number(value):
        return (0, value, "", ())
    return (1, 0, value if isinstance(value, str) else repr(value), ())


def _same_values(actual: Any, expected: Any, rule: Rule) -> bool:
    if isinstance(actual, Fraction | Decimal) and _is_number(expected):
        return _same_number(actual, expected, rule)
    if _is_number(actual) and _is_number(expected):
        return _same_number(actual, expected, rule)
    if isinstance(actual, set | frozenset) and isinstance(expected, list):
        return rule.is_unordered and _same_parts(list(actual), expected, rule)
    if isinstance(actual, list | tuple | deque) and isinstance(expected, list):
        is_long_enough = len(actual) == len(expected)
        pairs = zip(actual, expected, strict=False)
        return is_long_enough and all(
            _same_values(item, expected_item, rule) for item, expected_item in pairs
        )
    if isinstance(actual, dict) and isinstance(expected, dict):
        actual = {_key_of_json(key): value for key, value in actual.items()}
        return actual.keys() == expected.keys() and all(
            _same_values(actual[key], value, rule) for key, value in expected.items()
        )
    return type(actual) is type(expected) and actual == expected


def _same_number(actual: Any, expected: Any, rule: Rule) -> bool:
    if actual == expected:
        return True
    if rule.float_tolerance == 0 or not _is_finite(actual) or not _is_finite(expected):
        return False
    if not isinstance(expected, float) and (
        isinstance(actual, int) or rule.float_tolerance is None
    ):
        return False
    return _close(Fraction(actual), Fraction(expected), repr(expected), rule)


def _is_finite(number: Any) -> bool:
    return not isinstance(number, float | Decimal) or math.isfinite(number)


def _close(actual: Fraction, expected: Fraction, written: str, rule: Rule) -> bool:
    """Tell whether the difference is no more than the rule allows.

    `written`: the wanted number's text.

    A float must be closer to a wanted whole number than to any other.
    """
    tolerance = ROUNDING if rule.float_tolerance is None else rule.float_tolerance
    allowed = Fraction(tolerance) * max(Fraction(1), abs(expected))
    if WHOLE.fullmatch(written):
        allowed = min(allowed, Fraction(49, 100))
    elif rule.float_tolerance is None:
        allowed = max(allowed, Fraction(_half_unit(written)))
    return abs(actual - expected) <= allowed


def _half_unit(expected: str) -> float:
    """Return half a unit of the last decimal that a float was written with, 0 where it has few."""
    exponent = Decimal(expected).as_tuple().exponent
    if not isinstance(exponent, int) or exponent > -ROUNDED_DECIMALS:
        return 0.0
    return float(Decimal(5).scaleb(exponent - 1)) * (1 + ROUNDING)


def _key_of_json(key: Any) -> Any:
    """Return the key as an object of JSON has it."""
    json_names = {True: "true", False: "false", None: "null"}
    if key is None or isinstance(key, bool):
        return json_names[key]
    return str(key) if isinstance(key, int | float) else key


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
