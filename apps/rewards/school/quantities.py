"""Numbers with units. Units are pint's; what it is given is short, of plain signs, and with small exponents only."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Any, Protocol

from apps.rewards.mathematics import notation

LONGEST_UNIT, LONGEST_LINE = 40, 2_000
MOST_WORDS = 3  # of a unit in a sentence: "metres per second"
LARGEST_POWER = 300  # of ten, in a number
_NUMBER = re.compile(
    r"[-+]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:\s*(?:\\times|\\cdot|\*|x)\s*10\s*\^\s*\{?\s*([-+]?\d{1,3})\s*\}?|[eE]([-+]?\d{1,3})(?!\w))?"
)
_ALONE = re.compile(r"(?<![\w.,^])[-+]?\d{1,40}(?:,\d{3})*(?:\.\d{1,40})?(?:[eE][-+]?\d{1,3})?(?![\d.]*\d)")
_UNIT = re.compile(r"[A-Za-zµμΩ°%\d\-*/^().\s]*")
_SPELLED = {"ohms": "ohm", "Ω": "ohm", "\\Omega": "ohm", "μ": "µ", "\\mu": "µ", "°C": "degC", "°F": "degF", "\\degree C": "degC",
            "\\degree F": "degF", "\\degree": "degree", "°": "degree", "%": "percent", "\\cdot": "*", "\\times": "*"}  # fmt: skip


class Limits(Protocol):
    """How near is near enough: options of the scorer."""

    tolerance: float
    absolute: float
    unit: str
    significant_figures: int | None


@dataclass(frozen=True)
class Quantity:
    """`number` as it was written; `unit` as pint reads it, "" for none."""

    number: Decimal
    figures: int
    unit: str

    def __str__(self) -> str:
        return f"{self.number} {self.unit}".strip()


def asked(answer: Mapping[str, Any]) -> Quantity | None:
    """From `value` and `unit`, or from a value with its unit; None where they say no quantity."""
    value = answer.get("value", answer.get("answer"))
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    wanted = read(f"{value} {answer.get('unit') or answer.get('units') or ''}".strip())
    return wanted if wanted is not None and _parsed(wanted.unit) is not None else None


def read(text: str) -> Quantity | None:
    """None for what is no number, or has a unit that cannot be one."""
    text = notation.without_thousands(notation.clean(text[:300])).strip()
    text = re.sub(r"^(?:[A-Za-z]\w*|\\[a-zA-Z]+)(?:_\{?\w+\}?)?\s*=\s*", "", text)
    found = _NUMBER.match(text)
    power = found and (found[1] or found[2])
    if not found or not found.group() or (power and abs(int(power)) > LARGEST_POWER):
        return None
    digits = re.match(r"[-+]?[\d.]+", found.group()).group()
    unit = _unit(text[found.end() :])
    return None if unit is None else Quantity(Decimal(digits).scaleb(int(power or 0)), _figures(digits), unit)


def in_sentence(text: str) -> Quantity | None:
    """The one number of the last line, with as many of the words behind it as make a unit; None for several numbers, or no unit."""
    line = next((line for line in reversed(text[-LONGEST_LINE:].splitlines()) if line.strip()), "")
    numbers = list(_ALONE.finditer(line))
    if len(numbers) != 1:
        return None
    behind = line[numbers[0].end() :].split()[:MOST_WORDS]
    for words in range(len(behind), 0, -1):
        found = read(f"{numbers[0].group()} {' '.join(behind[:words]).rstrip('.,;:!*')}")
        if found is not None and has_known_unit(found):
            return found
    return None


def has_known_unit(quantity: Quantity) -> bool:
    return bool(quantity.unit) and _parsed(quantity.unit) is not None


def _unit(text: str) -> str | None:
    text = re.sub(r"\\text\{([^{}]*)\}", r"\1", text)
    for sign, spelled in _SPELLED.items():
        text = text.replace(sign, spelled)
    text = re.sub(r"\\frac\{([^{}]*)\}\{([^{}]*)\}", r"(\1)/(\2)", text).replace("{", "").replace("}", "").strip(" .,")
    return text if len(text) <= LONGEST_UNIT and _UNIT.fullmatch(text) and not re.search(r"\^[^/*]*\^|\*\*", text) else None


def _figures(digits: str) -> int:
    """Significant ones: all but the zeros in front, and those behind a number without a point."""
    plain = digits.lstrip("+-")
    counted = plain.replace(".", "").lstrip("0")
    return max(1, len(counted if "." in plain else counted.rstrip("0")))


@lru_cache(maxsize=256)
def _parsed(unit: str) -> Any:
    """pint's unit; None for one that it does not know."""
    try:
        return _registry().parse_units(unit.replace("^", "**"))
    except MemoryError:
        raise
    except Exception:  # pint's own, its tokenizer's, and those of numbers that are too large: no unit in any case
        return None


@lru_cache(maxsize=1)
def _registry() -> Any:
    import pint

    return pint.UnitRegistry(autoconvert_offset_to_baseunit=True, case_sensitive=True)


def wrong(wanted: Quantity, said: Quantity, limits: Limits) -> str:
    """Why `said` is not the quantity; empty where it is."""
    if not said.unit and wanted.unit and limits.unit == "required":
        return "the unit is missing"
    value = _converted(said, wanted.unit) if said.unit else float(said.number)
    if value is None:
        return "a unit of another kind, or none that is known"
    right = float(wanted.number)
    if limits.significant_figures is not None:
        return _misrounded(said, _converted(wanted, said.unit) if said.unit else right, limits.significant_figures)
    allowed = max(limits.tolerance * abs(right), limits.absolute)
    return "" if abs(value - right) <= allowed * (1 + 1e-9) + abs(right) * 1e-12 else "another value"


def _converted(quantity: Quantity, unit: str) -> float | None:
    source, target = _parsed(quantity.unit), _parsed(unit)
    if source is None or target is None:
        return None
    try:
        return float(_registry().Quantity(float(quantity.number), source).to(target).magnitude)
    except MemoryError:
        raise
    except Exception:  # of another dimension, of a scale with its own zero, or too large: not the same kind
        return None


def _misrounded(said: Quantity, right: float | None, figures: int) -> str:
    """Zeros behind a whole number may be significant: 1200 has two figures, three or four."""
    whole = str(said.number.normalize()) if said.number == said.number.to_integral_value() else ""
    most = len(f"{abs(int(said.number))}") if whole else said.figures
    if not min(said.figures, most) <= figures <= max(said.figures, most):
        return f"{said.figures} significant figures, not {figures}"
    if not right:
        return "" if not said.number else "another value"
    rounded = round_to(Decimal(repr(right)), figures)
    return "" if rounded == said.number else "another value"


def round_to(number: Decimal, figures: int) -> Decimal:
    """To so many significant figures, halves away from zero."""
    return number.quantize(Decimal(1).scaleb(number.adjusted() - figures + 1), rounding=ROUND_HALF_UP)
