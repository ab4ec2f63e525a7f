"""Read the units behind numbers: known ones are converted, unknown ones are words."""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from apps.rewards.mathematics.unit_symbols import known_symbols, may_be_letters
from apps.rewards.unit_products import with_products

MAX_UNIT_LENGTH = 60  # characters of a unit
_PI = Fraction(3141592653589793238462643383279502884197, 10**39)
# One line for each dimension: names of one unit, its size, the names of the next …
_TABLE = {
    "length": (
        """
        nm nanometer nanometre: 1/1000000000; um micrometer micrometre micron: 1/1000000;
        mm millimeter millimetre: 1/1000; cm centimeter centimetre: 1/100;
        dm decimeter decimetre: 1/10; m meter metre: 1; km kilometer kilometre: 1000;
        in inch inche: 127/5000; ft foot feet: 381/1250; yd yard: 1143/1250;
        mi mile: 201168/125; 毫米: 1/1000; 厘米: 1/100; 米: 1; 千米 公里: 1000
    """
    ),
    "mass": (
        """
        mg milligram: 1/1000000; g gram gramme: 1/1000; kg kilogram kilo: 1; tonne: 1000;
        oz ounce: 45359237/1600000000; lb lbs pound: 45359237/100000000;
        克: 1/1000; 千克 公斤: 1; 吨: 1000
    """
    ),
    "time": (
        """
        ms millisecond: 1/1000; s sec second: 1; min minute: 60; h hr hrs hour: 3600; day: 86400;
        week wk: 604800; 秒: 1; 分钟: 60; 小时: 3600; 天: 86400; 周: 604800
    """
    ),
    "month": "month mo 个月: 1; year yr 年: 12; decade: 120; century: 1200",
    "angle": "degree deg \\degree: PI/180; rad radian: 1",
    "money_usd": "dollar usd buck 美元: 1; cent penny 美分: 1/100",
    "money_eur": "euro eur 欧元: 1",
    "money_gbp": "pound_sterling gbp quid: 1; pence: 1/100",
    "money_jpy": "yen jpy 円 日元: 1",
    "money_inr": "rupee inr: 1",
    "money_rub": "ruble rubel rub: 1",
    "money_krw": "won krw: 1",
    "money_cny": "yuan rmb cny 元 块: 1; 角: 1/10; 分钱: 1/100",
    "temperature_c": "celsius c 摄氏度: 1",
    "temperature_f": "fahrenheit f 华氏度: 1",
    "temperature_k": "kelvin k: 1",
    "current": "a amp ampere: 1; ma milliamp milliampere: 1/1000",
    "amount": "mol mole: 1",
    "information": "bit: 1; byte: 8",
    "count": "dozen: 12",
}
# Named products: size, and powers of the dimensions above.
_DERIVED = {
    "l liter litre": ("1/1000", {"length": 3}),
    "ml milliliter millilitre": ("1/1000000", {"length": 3}),
    "n newton": ("1", {"mass": 1, "length": 1, "time": -2}),
    "j joule": ("1", {"mass": 1, "length": 2, "time": -2}),
    "kj kilojoule": ("1000", {"mass": 1, "length": 2, "time": -2}),
    "w watt": ("1", {"mass": 1, "length": 2, "time": -3}),
    "kw kilowatt": ("1000", {"mass": 1, "length": 2, "time": -3}),
    "pa pascal": ("1", {"mass": 1, "length": -1, "time": -2}),
    "v volt": ("1", {"mass": 1, "length": 2, "time": -3, "current": -1}),
    "hz hertz": ("1", {"time": -1}),
    "mph": ("1397/3125", {"length": 1, "time": -1}),
    "kmh kph": ("5/18", {"length": 1, "time": -1}),
    "acre": ("316160658/78125", {"length": 2}),
    "hectare ha": ("10000", {"length": 2}),
}
_CAPITALS = {"c", "f", "a", "n", "j", "w", "v", "l", "k"}  # one letter: only as a capital, but l
_TEMPERATURE = re.compile(r"(?:\\degree|degrees?)\s?(?:(C|celsius)|(?:F|fahrenheit))\b", re.I)
_PARTS = re.compile(
    r"(?P<over>/|\bper\b)|(?P<times>\\cdot|\\times|\*|·)"
    r"|(?P<word>\\?[A-Za-z_µμ]+|[\u3040-\u30ff\u3400-\u9fff]+)"
    r"|\^\s?\{?\s?(?P<power>-?\d)\s?\}?|(?P<digit>(?<=[a-z])[23](?![\d]))|(?P<blank>[\s{}().]+)"
)
_SYMBOL = re.compile(r"(?<![\\A-Za-z])[A-Za-zµμ]+")
_OHM = re.compile(r"([pnumkMG]|)\\Omega(?![A-Za-z])\s?")
_MICRO = re.compile(r"\\mu\s{0,2}(?=[A-Za-z\\])")
# Letters that are a temperature where they stand alone, and else mostly a charge or a capacitance.
_CHARGES = re.compile(r"(?<![A-Za-z\\])[CF](?![A-Za-z])(?<!\\degree [CF])(?<!\\degree[CF])")
_NAMES_OF_CHARGES = {"C": "coulomb", "F": "farad"}
_POWER_WORDS = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}
_POWER_BEHIND = {"squared": 2, "cubed": 3}
_NOTHING = frozenset(("unit", "of", "the", "in", "total", "each"))


@dataclass(frozen=True)
class Unit:
    """Unit of measurement.

    `size` in base units; `dimensions` with their powers; `words`: its unknown parts.
    """

    size: Fraction
    dimensions: tuple[tuple[str, int], ...]
    words: tuple[str, ...] = ()

    @property
    def is_known(self) -> bool:
        return not self.words


@cache
def _unit_table() -> dict[str, tuple[Fraction, tuple[tuple[str, int], ...]]]:
    table: dict[str, tuple[Fraction, tuple[tuple[str, int], ...]]] = {}
    for dimension, line in _TABLE.items():
        for entry in line.split(";"):
            names, _, size = entry.rpartition(":")
            value = _PI / 180 if "PI" in size else Fraction(size.strip())
            for name in names.split():
                table[name] = (value, ((dimension, 1),))
    for names, (size, dimensions) in _DERIVED.items():
        for name in names.split():
            table[name] = (Fraction(size), tuple(sorted(dimensions.items())))
    return table


# Zero of each scale, and the size of its degrees, in kelvin.
_SCALES = {
    "temperature_c": (Fraction(27315, 100), Fraction(1)),
    "temperature_f": (Fraction(45967, 180), Fraction(5, 9)),
    "temperature_k": (Fraction(0), Fraction(1)),
}


def scale(expected: str, answer: str) -> tuple[Fraction, Fraction] | None:
    """Return the factor and the offset from the answer's temperature scale to the expected one.

    None unless both units are temperatures.
    """
    parsed = [unit for unit in map(parse_unit, (expected, answer)) if unit is not None]
    if len(parsed) < 2 or any(len(unit.dimensions) != 1 or unit.words for unit in parsed):
        return None
    names = [unit.dimensions[0] for unit in parsed]
    if any(power != 1 or name not in _SCALES for name, power in names):
        return None
    (zero, size), (own_zero, own_size) = (_SCALES[name] for name, _ in names)
    return own_size / size, (own_zero - zero) / size


def is_known_unit(text: str) -> bool:
    """Tell a unit from unknown words, and from letters that may be factors."""
    return _is_understood(text) and not _may_be_factors(text)


def _is_understood(text: str) -> bool:
    unit = parse_unit(text)
    return unit is not None and unit.is_known and bool(unit.dimensions)


def _may_be_factors(text: str) -> bool:
    """Tell whether a symbol in it may be a product of names instead, outside of \\text: 3 MN."""
    if "\\text" in text:
        return False
    words = _SYMBOL.findall(text)
    return any(name in text for name in ("\\Omega", "\\mu")) or any(
        may_be_letters(word) and not _is_usual(word) for word in words
    )


def _is_usual(word: str) -> bool:
    return word.lower() in (_unit_table() if len(word) > 1 else _CAPITALS)


def is_joined_product(text: str) -> bool:
    """Tell whether the text is a unit only where symbols that stand together are a product.

    It may be a product of names as well, 2 AC^{-1}, so it is never left out.
    """
    if _is_understood(text):
        return _may_be_factors(text)
    spaced = with_products(text)
    return spaced != text and _is_understood(spaced)


@cache
def parse_unit(text: str) -> Unit | None:
    """Read a unit, or the words in the place of one; None where it is neither."""
    plain = re.sub(r"\\text\s?\{((?:[^{}]|\{[^{}]*\})*)\}", r" \1 ", text)
    plain = _TEMPERATURE.sub(lambda match: "celsius" if match[1] else "fahrenheit", plain)
    plain = _OHM.sub(r"\1ohm ", _MICRO.sub("u", plain))
    plain = re.sub(r"\\frac\s?\{([^{}]*)\}\s?\{([^{}]*)\}", r"\1 / \2", plain).strip(" .,;")
    plain = re.sub(r"(?<=[a-zA-Z])\.(?=[a-zA-Z])", "", plain)
    if not plain or len(plain) > MAX_UNIT_LENGTH:
        return None
    size = Fraction(1)
    powers: dict[str, int] = {}
    words = []
    sign = 1
    waiting = 1
    place = 0
    last = None
    while place < len(plain):
        part = _PARTS.match(plain, place)
        if part is None:
            return None
        place = part.end()
        if part["over"]:
            sign = -1
            last = None
        elif part["power"] or part["digit"]:
            if last is None:
                return None
            size, powers = _raised(size, powers, last, int(part["power"] or part["digit"]) - 1)
            last = None
        elif part["word"]:
            word = part["word"]
            if word.lower() in _POWER_WORDS:
                waiting = _POWER_WORDS[word.lower()]
                continue
            if word.lower() in _POWER_BEHIND and last is not None:
                size, powers = _raised(size, powers, last, _POWER_BEHIND[word.lower()] - 1)
                continue
            entry = _entry(word)
            if _stem(word) == "unit":  # plain units say nothing, square and cubic ones do
                powers["unit"] = waiting if waiting > 1 else 0
                waiting = 1
                continue
            if entry is None:
                if _stem(word) not in _NOTHING or sign < 0:
                    words.append(_stem(word) if sign > 0 else "per " + _stem(word))
                continue
            last = (*entry, sign)
            size, powers = _raised(size, powers, last, waiting)
            waiting = 1
    size, powers = _in_kelvin(size, powers)
    dimensions = tuple(sorted((name, power) for name, power in powers.items() if power))
    return Unit(size, dimensions, tuple(words))


def _in_kelvin(size: Fraction, powers: dict[str, int]) -> tuple[Fraction, dict[str, int]]:
    """Read degrees as kelvin if they are a part of a unit, as in J/(kg °C)."""
    dimensions = {name: power for name, power in powers.items() if power}
    if len(dimensions) < 2 and set(dimensions.values()) <= {1}:
        return size, dimensions
    for name in ("temperature_c", "temperature_f"):
        if power := dimensions.pop(name, 0):
            size *= _SCALES[name][1] ** power
            dimensions["temperature_k"] = dimensions.get("temperature_k", 0) + power
    return size, dimensions


def _raised(size: Fraction, powers: dict[str, int], last: tuple, times: int) -> tuple:
    """Multiply by the last unit so many times more (or less)."""
    unit_size, dimensions, sign = last
    powers = dict(powers)
    for name, power in dimensions:
        powers[name] = powers.get(name, 0) + power * times * sign
    return size * unit_size ** (times * sign), powers


def _entry(word: str) -> tuple | None:
    table = _unit_table()
    symbols = known_symbols()
    exact = word.replace("μ", "u").replace("µ", "u")
    if exact in symbols:
        return symbols[exact]
    low = word.lower().replace("μ", "u").replace("µ", "u")
    if len(low) == 1:
        if low in _CAPITALS and low != "l" and not word.isupper():
            return None
        if low not in _CAPITALS and word.isupper():
            return None
        return table.get("dollar" if low == "$" else low)
    if low in table:
        return table[low]
    return table.get(_stem(low)) or symbols.get(low) or symbols.get(_stem(low))


def _stem(word: str) -> str:
    """Return the singular, in lower case."""
    low = word.lower()
    if low in ("feet", "men", "women", "people", "children", "mice"):
        return {
            "feet": "foot",
            "men": "man",
            "women": "woman",
            "people": "person",
            "children": "child",
            "mice": "mouse",
        }[low]
    for ending, singular in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch")):
        if low.endswith(ending) and len(low) > len(ending) + 1:
            return low[: -len(ending)] + singular
    if low.endswith("s") and not low.endswith("ss") and len(low) > 3:
        return low[:-1]
    return low


def _readings(text: str) -> list[Unit]:
    """List what a unit may be: as it stands, and with its symbols as a product."""
    texts = dict.fromkeys((text, with_products(text)))
    readings = [unit for spelling in texts if (unit := parse_unit(spelling)) is not None]
    spelled_out = [
        _CHARGES.sub(lambda match: _NAMES_OF_CHARGES[match[0]], spelling) for spelling in texts
    ]
    if spelled_out == list(texts):
        return readings
    # A part of a unit, C is no temperature but where it is "per C".
    readings = [unit for unit in readings if dict(unit.dimensions).get("temperature_k", 0) <= 0]
    return readings + [
        unit for spelling in spelled_out if (unit := parse_unit(spelling)) is not None
    ]


def unit_ratio(expected: str, answer: str) -> Fraction | None:
    """Return the answer's unit divided by the expected one; None for another quantity."""
    if expected == answer:
        return Fraction(1)
    for expected_unit in _readings(expected):
        for answer_unit in _readings(answer):
            if (
                expected_unit.words == answer_unit.words
                and expected_unit.dimensions == answer_unit.dimensions
            ):
                return answer_unit.size / expected_unit.size
    return None
