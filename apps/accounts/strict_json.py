"""Strict JSON decoding of everything from outside: REST bodies, imports, sockets, model folders.

`json.loads` keeps the last of two equal keys, accepts NaN, reads 1e999 as infinity, and answers
deep nesting with a RecursionError. With each of these, two readers can see different documents.
Text that no database can store (NUL, half of a surrogate pair) is refused here as well, so that no
later code meets it.
"""

import json
import math
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

DEEPEST = 32  # levels of lists and objects
BYTE_ORDER_MARK = "\ufeff"  # some editors and .NET write it; RFC 8259 lets readers ignore it
MAX_DIGITS = 300  # of one whole number: it is read quickly, and is no larger than a float can be


class NotStrictJson(ValueError):
    """Raised for text that is not standard JSON, or exceeds our limits; the message says why."""


def decode_json(text: str | bytes, *, any_text: bool = False) -> Any:
    """Return the document in `text` (bytes are UTF-8).

    `any_text` allows strings that hold NUL or half a surrogate pair. Raises NotStrictJson with the
    reason.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode()
        text = text.removeprefix(BYTE_ORDER_MARK)
        document = json.loads(
            text,
            object_pairs_hook=_refuse_duplicates,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_short,
        )
    except NotStrictJson:
        raise
    except RecursionError:
        raise NotStrictJson("nested too deeply") from None
    except UnicodeDecodeError:
        raise NotStrictJson("not UTF-8") from None
    except ValueError as error:
        raise NotStrictJson(str(error)) from None
    # Only an escape can make a character that cannot be stored, where the text itself is ASCII.
    is_storable = any_text or (text.isascii() and "\\u" not in text)
    _require_bounded(document, is_storable)
    return document


def read_json_file(path: Path, limit: int) -> Any:
    """Return the document in a file of at most `limit` bytes; any text is allowed."""
    size = path.stat().st_size
    if size > limit:
        raise NotStrictJson(f"{size} bytes; the limit is {limit}")
    return decode_json(path.read_bytes(), any_text=True)


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object whose keys are unique; raise an error that names a repeated key."""
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise NotStrictJson(f"duplicate key {key[:100]!r}")
        result[key] = value
    return result


def _refuse_constant(word: str) -> None:
    raise NotStrictJson(f"{word} is not a number in JSON; use null for a missing value")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise NotStrictJson(f"{digits[:40]} is too large for a number")
    return number


def _short(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise NotStrictJson(f"a whole number with {len(digits)} digits; the limit is {MAX_DIGITS}")
    return int(digits)


def _require_bounded(document: Any, any_text: bool) -> None:
    """Require depth of at most DEEPEST, and that every string and key can be stored."""
    checked_types = (dict, list) if any_text else (dict, list, str)
    level = [document]
    for _ in range(DEEPEST):
        if not any_text:
            for value in level:
                if isinstance(value, str):
                    _require_storable(value)
        level = [
            part for value in level for part in _parts(value) if isinstance(part, checked_types)
        ]
    if any(isinstance(value, dict | list) for value in level):
        raise NotStrictJson(f"nested deeper than {DEEPEST} levels")
    for value in level:
        _require_storable(value)


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return chain(value, value.values())
    return value if isinstance(value, list) else ()


def _require_storable(text: str) -> None:
    if "\0" in text:
        raise NotStrictJson("a string contains the NUL character (\\u0000); remove it")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise NotStrictJson("a string contains half of a surrogate pair; send the whole character")
