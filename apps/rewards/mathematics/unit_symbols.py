"""Symbols and names of units with prefixes, as they are written: MJ is not mJ, kWh is 3.6 MJ."""

from fractions import Fraction
from functools import cache

Entry = tuple[Fraction, tuple[tuple[str, int], ...]]

# Powers of ten, by the symbol and the name of each prefix.
_PREFIXES = {
    ("p", "pico"): -12,
    ("n", "nano"): -9,
    ("u", "micro"): -6,
    ("m", "milli"): -3,
    ("c", "centi"): -2,
    ("d", "deci"): -1,
    ("h", "hecto"): 2,
    ("k", "kilo"): 3,
    ("M", "mega"): 6,
    ("G", "giga"): 9,
    ("T", "tera"): 12,
}
_ENERGY = {"mass": 1, "length": 2, "time": -2}
_PRESSURE = {"mass": 1, "length": -1, "time": -2}
_CHARGE = {"current": 1, "time": 1}
_RESISTANCE = {"mass": 1, "length": 2, "time": -3, "current": -2}
# Symbol, names, size in base units, dimensions, and the symbols of the prefixes that are in use.
_UNITS = (
    ("m", "meter metre", "1", {"length": 1}, "numcdk"),
    ("s", "second sec", "1", {"time": 1}, "pnum"),
    ("A", "ampere amp", "1", {"current": 1}, "pnumkM"),
    ("N", "newton", "1", {"mass": 1, "length": 1, "time": -2}, "numkMG"),
    ("J", "joule", "1", _ENERGY, "numkMGT"),
    ("Wh", "watthour watt-hour", "3600", _ENERGY, "mkMGT"),
    (
        "eV",
        "electronvolt electron-volt",
        "1602176634/10000000000000000000000000000",
        _ENERGY,
        "mkMGT",
    ),
    ("cal", "calorie", "4184/1000", _ENERGY, "k"),
    ("W", "watt", "1", {"mass": 1, "length": 2, "time": -3}, "numkMGT"),
    ("Pa", "pascal", "1", _PRESSURE, "mhkMG"),
    ("bar", "", "100000", _PRESSURE, "mk"),
    ("atm", "atmosphere", "101325", _PRESSURE, ""),
    ("mmHg", "torr", "101325/760", _PRESSURE, ""),
    ("Hz", "hertz", "1", {"time": -1}, "mkMGT"),
    ("V", "volt", "1", {"mass": 1, "length": 2, "time": -3, "current": -1}, "numkM"),
    ("C", "coulomb", "1", _CHARGE, "pnum"),
    ("ohm", "ohm", "1", _RESISTANCE, "mkMG"),
    ("F", "farad", "1", {"mass": -1, "length": -2, "time": 4, "current": 2}, "pnum"),
    ("H", "henry", "1", {"mass": 1, "length": 2, "time": -2, "current": -2}, "num"),
    ("T", "tesla", "1", {"mass": 1, "time": -2, "current": -1}, "num"),
    ("Wb", "weber", "1", {"mass": 1, "length": 2, "time": -2, "current": -1}, "m"),
    ("Bq", "becquerel", "1", {"decays": 1, "time": -1}, "kMG"),
    ("L", "liter litre", "1/1000", {"length": 3}, "umcd"),
    ("l", "", "1/1000", {"length": 3}, "umcd"),
    ("mol", "mole", "1", {"amount": 1}, "num"),
    ("g", "gram gramme", "1/1000", {"mass": 1}, "numk"),
    ("B", "byte", "8", {"information": 1}, "kMGT"),
    ("b", "bit", "1", {"information": 1}, "kMGT"),
)
_OTHERS = {
    "cc": (Fraction(1, 10**6), (("length", 3),)),
    "kwh": (Fraction(3_600_000), tuple(sorted(_ENERGY.items()))),
    "rpm": (Fraction(1, 60), (("revolution", 1), ("time", -1))),
    "revolution": (Fraction(1), (("revolution", 1),)),
}
# Single letters that are more often names, or another unit, than units.
_NO_SYMBOLS = frozenset(("C", "F", "B", "b"))


@cache
def known_symbols() -> dict[str, Entry]:
    """Return sizes and dimensions by symbol, case and all, and by name in lower case."""
    symbols: dict[str, Entry] = dict(_OTHERS)
    for symbol, names, size, dimensions, prefixes in _UNITS:
        kinds = tuple(sorted(dimensions.items()))
        value = Fraction(size)
        symbols |= dict.fromkeys(names.split(), (value, kinds))
        if symbol not in _NO_SYMBOLS:
            symbols[symbol] = (value, kinds)
        for (short, long), power in _PREFIXES.items():
            if short in prefixes:
                entry = (value * Fraction(10) ** power, kinds)
                symbols[short + symbol] = entry
                symbols |= {long + name: entry for name in names.split()}
    return symbols


def may_be_letters(word: str) -> bool:
    """Tell a symbol of so few letters that they may be the names of factors: MN, eV, T."""
    return len(word) < 3 and not word.islower() and word in known_symbols()
