"""When what a program gave is what was wanted: compared here, outside of the guest that gave it."""

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

# Possessive, as a program may print millions of digits: no digit is tried twice.
NUMBER = re.compile(r"[+-]?+(?:\d++\.?+\d*+|\.\d++)(?:[eE][+-]?+\d{1,3}+)?+", re.ASCII)
Whitespace = Literal["lines", "tokens", "exact"]


@dataclass(frozen=True)
class Rule:
    """`float_tolerance`: relative to the wanted number, or absolute below 1; 0 compares numbers in texts as texts.

    `is_unordered`: the lines of an output, or the parts of a list, may come in any order. `whitespace`: "lines" ignores it at the
    ends of lines and blank lines at the end, "tokens" counts any for one blank, "exact" ignores none.
    """

    float_tolerance: float = 0.0
    is_unordered: bool = False
    whitespace: Whitespace = "lines"


def same_text(said: str, wanted: str, rule: Rule) -> bool:
    left, right = _lines(said, rule), _lines(wanted, rule)
    if rule.is_unordered:
        left, right = sorted(left), sorted(right)
    if left == right:
        return True
    if not rule.float_tolerance or len(left) != len(right):
        return False
    return all(_close_lines(one, other, rule) for one, other in zip(left, right, strict=True))


def _lines(text: str, rule: Rule) -> list[str]:
    if rule.whitespace == "exact":
        return text.split("\n")
    if rule.whitespace == "tokens" and not rule.is_unordered:
        return [" ".join(text.split())]
    lines = [" ".join(line.split()) if rule.whitespace == "tokens" else line.rstrip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _close_lines(said: str, wanted: str, rule: Rule) -> bool:
    left, right = said.split(), wanted.split()
    return len(left) == len(right) and all(_close_words(one, other, rule) for one, other in zip(left, right, strict=True))


def _close_words(said: str, wanted: str, rule: Rule) -> bool:
    if said == wanted:
        return True
    both = NUMBER.fullmatch(said) and NUMBER.fullmatch(wanted)
    return bool(both) and _close(float(said), float(wanted), rule)


def _close(said: float, wanted: float, rule: Rule) -> bool:
    return said == wanted or abs(said - wanted) <= rule.float_tolerance * max(1.0, abs(wanted))


def same_value(said: Any, wanted: Any, rule: Rule) -> bool:
    """Values of JSON. 1 and 1.0 are the same, true is neither; `is_unordered` holds for the outermost list."""
    if rule.is_unordered and isinstance(said, list) and isinstance(wanted, list):
        said, wanted = sorted(said, key=_order), sorted(wanted, key=_order)
    return _same(said, wanted, rule)


def _order(value: Any) -> tuple:
    return (0, value, "") if _is_number(value) else (1, 0, json.dumps(value, sort_keys=True))


def _same(said: Any, wanted: Any, rule: Rule) -> bool:
    if _is_number(said) and _is_number(wanted):
        return said == wanted or (rule.float_tolerance > 0 and _close(said, wanted, rule))
    if type(said) is not type(wanted):
        return False
    if isinstance(wanted, list):
        return len(said) == len(wanted) and all(_same(one, other, rule) for one, other in zip(said, wanted, strict=True))
    if isinstance(wanted, dict):
        return said.keys() == wanted.keys() and all(_same(said[key], wanted[key], rule) for key in wanted)
    return said == wanted


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
