"""Read symbols of units that stand together as their product: ms^-1 is m s^-1, Jkg^-1 is J kg^-1.

This is a second reading beside the plain one, in which ms^-1 is one per millisecond. What the two
say is never of the same dimension, so the task's own unit decides between them.
"""

import re
from functools import cache

MAX_SYMBOLS_LENGTH = 12  # letters of symbols that stand together
_SYMBOLS = frozenset(
    (
        *("m", "km", "dm", "cm", "mm", "nm", "g", "kg", "mg", "s", "h", "min", "A", "mA", "K"),
        *("mol", "kmol", "mmol", "cd", "rad", "N", "kN", "J", "kJ", "MJ", "W", "kW", "MW", "V"),
        *("kV", "C", "Pa", "kPa", "MPa", "Hz", "kHz", "L", "mL", "F", "H", "T", "S", "Wb", "Bq"),
        *("eV", "keV", "MeV", "ohm"),
    )
)
_WORD = re.compile(r"(?<![A-Za-zµμ\\_])[A-Za-z]{1,40}(?![A-Za-zµμ_])")
_DOTTED = re.compile(
    r"(?<![A-Za-z.])[A-Za-z]{1,4}(?:\.[A-Za-z]{1,12}(?:\^?\{?-?\d\}?)?){1,4}(?![\w.])"
)
_BARE_POWER = re.compile(r"(?<=[A-Za-z])-(?=[1-4](?![\d.]))")
_COMPOSED = re.compile(r"[/^]")


def with_products(unit: str) -> str:
    """Return the unit with blanks between the symbols of a product; the same text without any.

    Words in small letters are split only beside a power or "/", as "ms" alone is a time.
    """
    text = _DOTTED.sub(_spaced, _BARE_POWER.sub("^-", unit))
    is_composed = _COMPOSED.search(text) is not None
    return _WORD.sub(lambda match: _product(match.group(), is_composed), text)


def _spaced(match: re.Match) -> str:
    """Replace points between symbols by blanks: m.s^-1, but not p.m."""
    parts = match.group().split(".")
    are_symbols = all(_split(re.sub(r"[^A-Za-z]", "", part)) for part in parts)
    return " ".join(parts) if are_symbols else match.group()


def _product(word: str, is_composed: bool) -> str:
    if word in _SYMBOLS or len(word) > MAX_SYMBOLS_LENGTH or not (is_composed or word[0].isupper()):
        return word
    return " ".join(_split(word)) or word


@cache
def _split(word: str) -> tuple[str, ...]:
    """Split the word into unit symbols, trying longer ones first; () if that is not possible."""
    if word in _SYMBOLS:
        return (word,)
    for size in range(min(4, len(word) - 1), 0, -1):
        if word[:size] in _SYMBOLS and (symbols := _split(word[size:])):
            return (word[:size], *symbols)
    return ()
