"""Values of Python as JSON and back, for what crosses the border of a guest.

Standard library alone.

Guests are given this file's text as well. What JSON has no form for becomes an object with the key
"$". Nothing is ever unpickled: the other side may be hostile.
"""

import math
import sys
from collections import deque

KIND = "$"
MAX_PLAIN_BYTES = (
    1 << 63
)  # whole numbers from here on are written in hexadecimal, which is quick to read
MAX_LEVELS = 40
MAX_DECIMAL_LENGTH = 1_000  # digits, also those that an exponent stands for


def refuse_type(value):
    """Raise TypeError that names the value's type."""
    raise TypeError(f"a value of type {type(value).__name__} cannot be compared")


def encode(value, fallback=refuse_type, levels=MAX_LEVELS):
    """Return the value for json.dumps; `fallback` is asked for what has no form here.

    Raises TypeError where `fallback` does, ValueError when the value is nested too deeply.
    """
    if levels == 0:
        raise ValueError("nested too deeply")
    if value is None or isinstance(value, str | bool):
        return value if value is None or type(value) in (str, bool) else str.__str__(value)
    if isinstance(value, int):
        number = int.__int__(value)
        return number if abs(number) < MAX_PLAIN_BYTES else {KIND: "int", "v": hex(number)}
    if isinstance(value, float):
        real = float.__float__(value)
        return real if math.isfinite(real) else {KIND: "float", "v": str(real)}
    if isinstance(value, list):
        return [encode(part, fallback, levels - 1) for part in list.__iter__(value)]
    if isinstance(value, tuple | set | frozenset | deque):
        kinds = ((tuple, "tuple"), (deque, "deque"), (set, "set"), (frozenset, "set"))
        kind = next(name for base, name in kinds if isinstance(value, base))
        return {KIND: kind, "v": [encode(part, fallback, levels - 1) for part in value]}
    if isinstance(value, dict):
        return _encode_dict(value, fallback, levels)
    return _encode_other(value, fallback, levels)


def _encode_dict(value, fallback, levels):
    pairs = [(key, encode(part, fallback, levels - 1)) for key, part in dict.items(value)]
    if all(type(key) is str for key, _ in pairs) and KIND not in value:
        return dict(pairs)
    return {KIND: "dict", "v": [[encode(key, fallback, levels - 1), part] for key, part in pairs]}


def _encode_other(value, fallback, levels):
    if isinstance(value, bytes | bytearray):
        return {KIND: "bytes", "v": bytes(value).hex()}
    if isinstance(value, complex):
        return {KIND: "complex", "v": [encode(value.real), encode(value.imag)]}
    if _is_instance_of("fractions", "Fraction", value):
        return {KIND: "fraction", "v": [encode(value.numerator), encode(value.denominator)]}
    if _is_instance_of("decimal", "Decimal", value):
        return {KIND: "decimal", "v": str(value)}
    if type(value).__module__ == "numpy":
        plain = value.tolist()  # an array's lists, a number's own value
        return encode(plain, fallback, levels - 1)
    return fallback(value)


def _is_instance_of(module, name, value):
    """Tell whether a value is of a class, without importing the class's slow module.

    A value of such a class exists only if its module is imported.
    """
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, getattr(loaded, name, ()))


def decode(document, references=None):
    """Return the value of what json.loads read.

    `references` says what an object of the kind "ref" means.

    Raises ValueError for what `encode` never writes.
    """
    if isinstance(document, list):
        return [decode(part, references) for part in document]
    if not isinstance(document, dict):
        return document
    if KIND not in document:
        return {key: decode(part, references) for key, part in document.items()}
    kind = document[KIND]
    value = document.get("v")
    try:
        if kind == "ref" and references is not None:
            return references(value)
        if kind in ("tuple", "deque", "set"):
            return _SEQUENCES[kind](decode(value, references))
        if kind == "dict" and value is not None:
            return {decode(key, references): decode(part, references) for key, part in value}
        return _DECODERS[kind](value)
    except KeyError:
        raise ValueError("unknown kind of value") from None
    except (TypeError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"invalid value of kind {document[KIND]}: {error}") from None


def _decode_fraction(parts):
    from fractions import Fraction

    numerator, denominator = decode(parts)
    return Fraction(numerator, denominator)


def _decode_complex(parts):
    real, imaginary = decode(parts)
    return complex(real, imaginary)


def _decode_decimal(text):
    from decimal import Decimal

    number = Decimal(text)
    if len(text) > MAX_DECIMAL_LENGTH or abs(number.adjusted()) > MAX_DECIMAL_LENGTH:
        raise ValueError("a decimal number with too many digits")
    return number


_SEQUENCES = {"tuple": tuple, "deque": deque, "set": set}
_DECODERS: dict = {
    "int": lambda digits: int(digits, 16),
    "float": float,
    "bytes": bytes.fromhex,
    "complex": _decode_complex,
    "fraction": _decode_fraction,
    "decimal": _decode_decimal,
}
