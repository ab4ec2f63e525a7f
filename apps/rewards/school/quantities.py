"""Read numbers with units.

Units are pint's; what it is given is short, of plain signs, and with small exponents only.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Any, Protocol

from apps.rewards import number_words, spelled_values, unmarked_answers
from apps.rewards.altered_numbers import is_altered
from apps.rewards.mathematics import notation
from apps.rewards.unit_products import with_products

MAX_UNIT_LENGTH = 40
MAX_LINE_BYTES = 2_000
MAX_SPELLED_LENGTH = 100  # characters of a number in words with its unit
MAX_WORDS = 5  # of a unit in a sentence: "metres per second squared"
MAX_EXPONENT_OF_TEN = 300  # of ten, in a number
_NUMBER = re.compile(
    r"[-+]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:\s*(?:\\times|\\cdot|\*|x)\s*10\s*\^\s*\{?"
    r"\s*([-+]?\d{1,3})\s*\}?|[eE]([-+]?\d{1,3})(?!\w))?"
)
_ALONE = re.compile(
    r"(?<![\w.,^])[-+]?\d{1,40}(?:,\d{3})*(?:\.\d{1,40})?(?:[eE][-+]?\d{1,3})?(?![\d.]*\d)"
)
_UNIT = re.compile(r"[A-Za-zµμΩ°%\d\-*/^().\s]*")
_SPELLED = {
    "kilo-": "kilo",
    "mega-": "mega",
    "milli-": "milli",
    "micro-": "micro",
    "Nm": "N*m",
    "ohms": "ohm",
    "Ω": "ohm",
    "\\Omega": "ohm",
    "μ": "µ",
    "\\mu": "µ",
    "℃": "degC",
    "℉": "degF",
    "°C": "degC",
    "°F": "degF",
    "\\degree C": "degC",
    "\\degree F": "degF",
    "\\degree": "degree",
    "°": "degree",
    "%": "percent",
    "\\cdot": "*",
    "\\times": "*",
    "·": "*",
    "⋅": "*",
}
# Words that people write and pint does not read; each replaces a whole word.
_WORDS = {
    "amps": "ampere",
    "amp": "ampere",
    "kmh": "km/hour",
    "kph": "km/hour",
    "kmph": "km/hour",
    "kmhr": "km/hour",
    "hrs": "hour",
    "hr": "hour",
    "h": "hour",
    "mins": "minute",
    "secs": "second",
    "sec": "second",
    "celsius": "degC",
    "fahrenheit": "degF",
    "centigrade": "degC",
    "litres": "liter",
    "litre": "liter",
    "cc": "cm**3",
    "feet": "foot",
    "ft": "foot",
    "in": "inch",
    "lbs": "pound",
    "kilos": "kg",
    "kg": "kg",  # Kg and Km, with a capital letter
    "km": "km",
    "newtons": "newton",
    "joules": "joule",
    "watts": "watt",
    "volts": "volt",
    "pascals": "pascal",
    "hertz": "hertz",
    "grammes": "gram",
    "gramme": "gram",
    "moles": "mole",
    "molar": "mol/liter",
    "ms": "millisecond",
    "yrs": "year",
    "yr": "year",
    "degrees": "degree",
    "euros": "euro",
    "rpm": "1/minute",
    "kwh": "kWh",
    "ohm": "ohm",
    "G": "gauss",
}
# Signs of Unicode that look like others or stand for several: Greek letters, K of Kelvin, Å.
_ONE_SIGN = str.maketrans(
    {
        "℃": "°C",
        "℉": "°F",
        "\u03bc": "\u00b5",
        "\u2126": "\u03a9",
        "\u212a": "K",
        "\u00c5": "angstrom",
        "\u212b": "angstrom",
    }
)
_GRAMS = re.compile(r"\bgms?\b")  # Gm are gigametres
_DEGREES = frozenset(("degC", "degF"))
_DEGREES_ALONE = {"C": "degC", "F": "degF"}
_POWERS = {"squared": "^2", "cubed": "^3"}
_BEFORE = {"square": "^2", "sq": "^2", "cubic": "^3", "cu": "^3"}
_TEMPERATURE = re.compile(r"\bdegrees?\s(?=(?:c|f|celsius|fahrenheit)\b)", re.I)
_ABOUT = re.compile(
    r"^(?:about|approximately|approx\.?|roughly|around|nearly|ca\.|circa|\\approx|\\sim|~)\s?", re.I
)
_REMARK = re.compile(
    r"\s\([^()]{0,80}\)$|\s(?:to the \w+|upwards?|downwards?|north|south|east|west)$"
)
_MIXED = re.compile(
    r"^(-?)(?:(\d{1,6})\s?)?\\frac\{(\d{1,6})\}\{([1-9]\d{0,5})\}(?![\d/^])"
    r"|^(-?)(\d{1,6})\s(\d{1,3})/([1-9]\d{0,2})(?![\d/^.])"
)
_NESTED_TEXT = re.compile(r"\\text\s?\{((?:[^{}]|\{[^{}]*\})*)\}")
_NAME = re.compile(
    r"^(?:[A-Za-z]\w{0,30}|\\[a-zA-Z]{1,20})(?:_\{?\w{1,20}\}?)?\s?[=:]\s?(?=[-+\d.])"
)
_IN_PI = re.compile(
    r"^-?(?:(\d{0,6}(?:\.\d{1,6})?)\s?(?:\\pi(?![a-z])|π|pi(?![a-z]))(?:\s?/\s?([1-9]\d{0,5}))?"
    r"|\\frac\s?\{\s?(\d{0,6})\s?\\pi\s?\}\s?\{\s?([1-9]\d{0,5})\s?\})(\s?[A-Za-z\\°].{0,60})?$"
)
_POWER_IN_BRACKETS = re.compile(r"(?<=\d)\^\(\s?(-?\d{1,3})\s?\)")
# 1h30, 1 h 30 m, 1:30 h; a metre is no part of an hour.
_HOURS = re.compile(r"(\d{1,3})\s?(?:[hH]\s?|:(?=\d\d\s?h))([0-5]?\d)\s?(?:m|h|hours?|hrs?)?")
_EACH = re.compile(
    r"(?<=[a-z])\san?\s(?=(?:hour|second|minute|day|week|year|lit(?:re|er))\b)", re.I
)
_MICRO = re.compile(r"(?:\\mu(?![a-z])|[µμ])\s{0,3}(?=[A-Za-z])")
_UNDER_ONE = re.compile(r"^\s{0,3}(?:/|per\s)\s?(?=[a-zA-Z])")  # 6e23 per mole
_ONE = re.compile(r"\A(?:a|an|one)\s(?=[a-z]{3,12}\Z)", re.I)  # an hour
_SEGMENT = re.compile(
    r"\s?(?:,\s?|and\s)?([-+]?\d{1,12}(?:\.\d{1,12})?)\s?([A-Za-zµ°'\"]{1,14})(?![A-Za-z_^/*])"
)


class Limits(Protocol):
    """Options of the scorer that say how near a quantity must be."""

    @property
    def tolerance(self) -> float: ...
    @property
    def absolute(self) -> float: ...
    @property
    def unit(self) -> str: ...
    @property
    def significant_figures(self) -> int | None: ...


@dataclass(frozen=True)
class Quantity:
    """Number as it was written, and its unit as pint reads it, "" for none.

    `product`: its other reading, where symbols that stand together are a product; else "".
    """

    number: Decimal
    figures: int
    unit: str
    product: str = ""

    def __str__(self) -> str:
        return f"{self.number} {self.unit}".strip()


def read_wanted_quantity(answer: Mapping[str, Any]) -> Quantity | None:
    """Read a quantity from `value` and `unit`, or from a value with its unit.

    Return None if they give no quantity.
    """
    value = answer.get("value", answer.get("answer"))
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    expected = parse_quantity(f"{value} {answer.get('unit') or answer.get('units') or ''}".strip())
    return expected if expected is not None and _parse_unit(expected.unit) is not None else None


def parse_quantity(text: str) -> Quantity | None:
    """Read a quantity; None for what is no number, or has a unit that cannot be one."""
    text = _POWER_IN_BRACKETS.sub(r"^{\1}", text[:MAX_LINE_BYTES].translate(_ONE_SIGN))
    text = notation.without_thousands(notation.clean(_last_side(text)[:300]))
    text = _ABOUT.sub("", _NAME.sub("", text.strip())).strip()
    text = _IN_PI.sub(_times_pi, text)
    text = _MIXED.sub(_mixed, _with_halves(_ONE.sub("1 ", text)))
    if not re.search(r"\d", text):
        text = _spelled(re.sub(r"\\text\s?\{([^{}]*)\}", r"\1", text))
    text = re.sub(r"^(-?\d{1,9})/([1-9]\d{0,8})(?=\s|[A-Za-z]|$)", _quotient, text)
    text = re.sub(r"^(-?\d{1,20}),(\d{1,2}|\d{4,20})(?=\s|[A-Za-z]|$)", r"\1.\2", text)
    number_match = _NUMBER.match(text)
    power = number_match and (number_match[1] or number_match[2])
    if (
        not number_match
        or not number_match.group()
        or (power and abs(int(power)) > MAX_EXPONENT_OF_TEN)
    ):
        return None
    if together := _compound(text):
        return together
    if half := _HOURS.fullmatch(text.strip(" .")):
        minutes = int(half[1]) * 60 + int(half[2])
        return Quantity(Decimal(minutes), _figures(str(minutes)), "minute")
    begins = re.match(r"[-+]?[\d.]+", number_match.group())
    assert begins is not None  # as a number does
    digits = begins.group()
    number = Decimal(digits).scaleb(int(power or 0))
    unit, product = _unit_and_product(_REMARK.sub("", text[number_match.end() :]))
    return None if unit is None else Quantity(number, _figures(digits), unit, product)


def _unit_and_product(text: str) -> tuple[str | None, str]:
    """Return both readings of a unit; only the product if the plain reading is unknown."""
    text = _NESTED_TEXT.sub(r" \1 ", text)
    unit = _unit(text)
    spaced = with_products(text)
    product = _unit(spaced) if spaced != text else _group_denominator(unit)
    if product is None or product == unit or _parse_unit(product) is None:
        return unit, ""
    return (unit, product) if unit is not None and _parse_unit(unit) is not None else (product, "")


def _group_denominator(unit: str | None) -> str | None:
    """Return the unit with all that follows its one "/" below it: J/kg K is J/(kg K)."""
    above, line, below = (unit or "").partition("/")
    is_plain = line and not re.search(r"[/()]", below) and re.search(r"\S[\s*]+\S", below)
    return f"{above.strip()} / ( {below.strip()} )" if is_plain else None


def _times_pi(match: re.Match) -> str:
    """Write a part of π, π/4 or \\frac{\\pi}{4}, as a decimal; in radians if no unit follows."""
    times = match[1] or match[3]
    bottom = match[2] or match[4]
    number = math.pi * float(times or 1) / float(bottom or 1)
    sign = "-" if match.group().startswith("-") else ""
    return f"{sign}{number:.12f}{match[5] or ' rad'}"


def _with_halves(text: str) -> str:
    """Write "an hour and a half" and "two and a half hours" with a decimal."""
    if half := re.fullmatch(r"(?:an?|one)\s([a-z]{3,12})\sand\sa\shalf[.]?", text, re.I):
        return f"1.5 {half[1]}"
    if half := re.fullmatch(r"(\w{1,12})\sand\sa\shalf\s([a-z]{3,12})[.]?", text, re.I):
        whole = number_words.in_digits(half[1])
        return f"{whole}.5 {half[2]}" if whole.isdigit() else text
    return text


def _spelled(text: str) -> str:
    """Write the number in words that the text begins with in figures: three quarters of an hour."""
    words = text[:MAX_SPELLED_LENGTH].split()
    for count in range(len(words), 0, -1):
        if figures := spelled_values.in_figures(" ".join(words[:count])):
            number = re.sub(r"\\frac\{(\d+)\}\{(\d+)\}", _quotient, figures)
            unit = re.sub(r"^(?:of\s)?an?\s", "", " ".join(words[count:]))
            return f"{number} {unit}".strip()
    return text


def _mixed(match: re.Match) -> str:
    """Write 1 1/2, 1\\frac{1}{2} and \\frac{3}{2} as a decimal."""
    sign = match[1] or match[5] or ""
    top, bottom = Decimal(match[3] or match[7]), Decimal(match[4] or match[8])
    return f"{sign}{Decimal(match[2] or match[6] or 0) + top / bottom:f} "


def _quotient(match: re.Match) -> str:
    """Write one fraction as a decimal."""
    return f"{Decimal(match[1]) / Decimal(match[2]):f}"


def _last_side(text: str) -> str:
    """Return the text after the last "=", as in F = m a = 36 N, and before ≈."""
    exact = re.split(r"≈|\\approx(?![a-zA-Z])", text)
    sides = (exact[0] if exact[0].strip() else text).split("=")
    return sides[-1] if len(sides) > 1 and re.search(r"\d", sides[-1]) else exact[0] or text


def _compound(text: str) -> Quantity | None:
    """Read 1 h 30 min and 6 ft 2 in: each unit smaller than the one before it."""
    place = 0
    parts = []
    while segment := _SEGMENT.match(text, place):
        unit = _unit(segment[2])
        if unit is None or _parse_unit(unit) is None:
            return None
        parts.append((Decimal(segment[1]), unit, "and" in segment.group()))
        place = segment.end()
    if len(parts) < 2 or text[place:].strip(" ."):
        return None
    first = parts[0]
    total = parts[0][0]
    for number, unit, is_joined in parts[1:]:
        size = _converted(Quantity(Decimal(1), 1, unit), first[1])
        if size is None or not 0 < size < 1 or number < 0:
            return None
        if is_joined and _converted(Quantity(Decimal(1), 1, unit), "hour") is None:
            return None
        total += Decimal(repr(size * float(number)))
    return Quantity(total, 15, first[1])


def in_sentence(text: str) -> Quantity | None:
    """Read the last line: all of it, or its one number with the words behind it that make a unit.

    None for several numbers, or no unit.
    """
    line = next(
        (line for line in reversed(text[-MAX_LINE_BYTES:].splitlines()) if line.strip()), ""
    )
    whole = parse_quantity(line.strip(" .*$"))
    if whole is not None and has_known_unit(whole):
        return whole
    numbers = list(_ALONE.finditer(line))
    before = line[: numbers[0].start()] if numbers else ""
    if unmarked_answers.is_denied(before):
        return None
    if numbers and is_altered(before, line[numbers[0].end() :]):
        return None
    together = _compound(line[numbers[0].start() :]) if numbers else None
    if together or len(numbers) != 1:
        return together
    behind = line[numbers[0].end() :].split()[:MAX_WORDS]
    for words in range(len(behind), 0, -1):
        unit = " ".join(behind[:words]).rstrip(".,;:!*")
        quantity = parse_quantity(f"{numbers[0].group()} {unit}")
        if quantity is not None and has_known_unit(quantity):
            return quantity
    return None


def has_known_unit(quantity: Quantity) -> bool:
    return bool(quantity.unit) and _parse_unit(quantity.unit) is not None


def _unit(text: str) -> str | None:
    """Spell a unit as pint reads it; None for what cannot be one."""
    text = _EACH.sub(" per ", _MICRO.sub("µ", text)).replace("electron volt", "electronvolt")
    text = _UNDER_ONE.sub("1 / ", text)
    for sign, spelled in _SPELLED.items():
        text = text.replace(sign, f" {spelled} " if spelled.startswith("deg") else spelled)
    text = re.sub(r"\\frac\s?\{([^{}]*)\}\s?\{([^{}]*)\}", r"(\1)/(\2)", text)
    text = re.sub(r"(?<=[A-Za-z])-(?=[A-Za-z])", " * ", _GRAMS.sub("gram", text))
    text = _TEMPERATURE.sub("deg", text.replace("{", "").replace("}", "").strip(" .,"))
    text = re.sub(r"\bdeg(?:\s?)(C|F)(?:elsius|ahrenheit)?\b", r"deg\1", text, flags=re.I)
    if len(text) > MAX_UNIT_LENGTH or not _UNIT.fullmatch(text):
        return None
    text = _write_in_symbols(re.sub(r"(?<=[A-Za-zµ])-(?=\d(?!\d))", "^-", text))
    text = re.sub(r"(\^\s?-?\d+)\s+(?=[A-Za-zµ(])", r"\1 * ", text)
    return None if re.search(r"\^[^/*]*\^|\*\*", text) else text


def _write_in_symbols(text: str) -> str:
    """Write "metres per second squared" and "square metres" as m/s^2 and m^2."""
    if not re.search(r"[A-Za-z]", text):
        return text.strip()
    words: list[str] = []
    pending_power = ""
    for word in re.findall(r"[A-Za-zµμΩ]+[23]?(?![\w])|[A-Za-zµμΩ]+|[^A-Za-zµμΩ\s]+", text):
        low = word.lower()
        if low == "per":
            words.append("/")
        elif low in _BEFORE and not pending_power:
            pending_power = _BEFORE[low]
        elif low in _POWERS and words:
            words[-1] += _POWERS[low]
        else:
            parts = re.fullmatch(r"(.*?)([23]?)", word) if word[0].isalpha() else None
            plain, power = parts.groups() if parts else (word, "")
            if len(plain) > 3 and plain[1:].islower():  # Newton, in a heading or in German
                plain = plain.lower()
            unit_name = _WORDS.get(plain if len(plain) == 1 else plain.lower(), plain)
            words.append(
                unit_name.replace("**", "^") + (f"^{power}" if power else "") + pending_power
            )
            pending_power = ""
    return " ".join(words)


def _figures(digits: str) -> int:
    """Count the significant figures.

    Zeros in front do not count, nor do those at the end of a number without a decimal point.
    """
    plain = digits.lstrip("+-")
    significant = plain.replace(".", "").lstrip("0")
    return max(1, len(significant if "." in plain else significant.rstrip("0")))


@lru_cache(maxsize=256)
def _parse_unit(unit: str) -> Any:
    """Return pint's unit; None if pint does not know it."""
    try:
        return _registry().parse_units(unit.replace("^", "**"))
    except MemoryError:
        raise
    except (
        Exception
    ):  # pint's own, its tokenizer's, and those of numbers that are too large: no unit in any case
        return None


def load_unit_table() -> None:
    """Read the table of units, which takes seconds."""
    _registry()


@lru_cache(maxsize=1)
def _registry() -> Any:
    import pint

    return pint.UnitRegistry(autoconvert_offset_to_baseunit=True, case_sensitive=True)


def explain_difference(expected: Quantity, answer: Quantity, limits: Limits) -> str:
    """Return why `answer` differs from the expected quantity; "" if any reading agrees."""
    readings = [
        (right, answered) for right in _readings(expected) for answered in _readings(answer)
    ]
    whys = [_difference(right, answered, limits) for right, answered in readings]
    return "" if "" in whys else whys[0]


def _readings(quantity: Quantity) -> list[Quantity]:
    return [quantity, *([replace(quantity, unit=quantity.product)] if quantity.product else [])]


def _difference(expected: Quantity, answer: Quantity, limits: Limits) -> str:
    if not answer.unit and expected.unit and limits.unit == "required":
        return "the unit is missing"
    if expected.unit in _DEGREES:  # 25 C is no charge where degrees are asked for
        answer = replace(answer, unit=_DEGREES_ALONE.get(answer.unit, answer.unit))
    value = _converted(answer, expected.unit) if answer.unit else float(answer.number)
    if value is None:
        return "a different or unknown unit"
    right = float(expected.number)
    if limits.significant_figures is not None:
        return _explain_rounding(
            answer,
            _converted(expected, answer.unit) if answer.unit else right,
            limits.significant_figures,
        )
    allowed = max(limits.tolerance * abs(right), limits.absolute)
    return (
        "" if abs(value - right) <= allowed * (1 + 1e-9) + abs(right) * 1e-12 else "another value"
    )


def _converted(quantity: Quantity, unit: str) -> float | None:
    source = _parse_unit(quantity.unit)
    target = _parse_unit(unit)
    if source is None or target is None:
        return None
    try:
        return float(_registry().Quantity(float(quantity.number), source).to(target).magnitude)
    except MemoryError:
        raise
    except (
        Exception
    ):  # of another dimension, of a scale with its own zero, or too large: not the same kind
        return None


def _explain_rounding(answer: Quantity, right: float | None, figures: int) -> str:
    """Return why a value is not the expected one at this many figures; "" if it is.

    Zeros at the end of a whole number may be significant: 1200 has two figures, three or four.
    """
    whole = (
        str(answer.number.normalize()) if answer.number == answer.number.to_integral_value() else ""
    )
    most_figures = len(f"{abs(int(answer.number))}") if whole else answer.figures
    if not min(answer.figures, most_figures) <= figures <= max(answer.figures, most_figures):
        return f"{answer.figures} significant figures, not {figures}"
    if not right:
        return "" if not answer.number else "another value"
    rounded = round_to(Decimal(repr(right)), figures)
    return "" if rounded == answer.number else "another value"


def round_to(number: Decimal, figures: int) -> Decimal:
    """Round to this many significant figures, halves away from zero."""
    return number.quantize(
        Decimal(1).scaleb(number.adjusted() - figures + 1), rounding=ROUND_HALF_UP
    )
