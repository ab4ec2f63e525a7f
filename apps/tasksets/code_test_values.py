"""Read the values in a programming task's tests: JSON, Python literals, arguments and packed data.

Every function takes a value of a row and the name of its field, and raises BadTests, which names
the field, for a value that cannot be read.
"""

import ast
import base64
import binascii
import re
import zlib
from collections.abc import Mapping
from typing import Any

from apps.accounts import strict_json
from apps.tasksets.check_names import NotPython, parse_python
from apps.tasksets.pickled_text import NotOneText, read_pickled_text
from apps.tasksets.python_literals import NotALiteral, read_literal

MAX_UNPACKED_BYTES = 64 << 20  # bytes of one task's private tests


class BadTests(ValueError):
    """Raised for unreadable tests; the message names the field."""


def is_test(text: str) -> bool:
    """Tell whether a text is Python that asserts something, not prose that mentions it."""
    if not re.search(r"^[ \t]*assert\b", text, re.MULTILINE):
        return False
    try:
        return bool(parse_python(text))
    except NotPython:
        return False


def read_texts(value: Any, field: str) -> list[str]:
    """Return a list of texts, also one that is written as JSON, or one text of Python.

    An empty list for null.
    """
    if isinstance(value, str) and is_test(value):
        return [value]
    value = decode_value(value, field) if isinstance(value, str) and value else value or []
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise BadTests(f"{field}: must be a list of texts")
    return value


def read_tests(value: Any, field: str) -> list[Any]:
    """Return a list of tests, also one that is written as JSON; an empty one for null."""
    value = decode_value(value, field) if isinstance(value, str) else value
    if value is not None and not isinstance(value, list):
        raise BadTests(f"{field}: must be a list of tests")
    return value or []


def unpack_tests(value: Any) -> Any:
    """Unpack private tests of LiveCodeBench: JSON, or a pickled text packed by zlib and base64."""
    if not isinstance(value, str) or value.lstrip()[:1] in ("[", "{"):
        return value
    field = "private_test_cases"
    try:
        packed = base64.b64decode(value, validate=True)
        unpacking = zlib.decompressobj()
        content = unpacking.decompress(packed, MAX_UNPACKED_BYTES)
    except (binascii.Error, ValueError, zlib.error):
        raise BadTests(f"{field}: must be JSON or base64-encoded zlib data") from None
    if not unpacking.eof:
        too_large = f"larger than {MAX_UNPACKED_BYTES >> 20} MiB or truncated"
        raise BadTests(f"{field}: the unpacked data is {too_large}")
    if content[:1] in (b"[", b"{", b'"'):
        return decode_value(content.decode(errors="replace"), field)
    try:
        return read_pickled_text(content)
    except NotOneText as refusal:
        raise BadTests(f"{field}: {refusal}") from None


def read_lines(text: str, field: str) -> list[Any]:
    """Return the arguments of a call, one in JSON on each line."""
    return [decode_value(line, field) for line in text.split("\n") if line.strip()]


def decode_value(value: Any, field: str) -> Any:
    """Return the value of a text of JSON or of a Python literal; other values as they are."""
    if not isinstance(value, str):
        return value
    try:
        return strict_json.decode_json(value)
    except strict_json.NotStrictJson as error:
        refusal = BadTests(f"{field}: not JSON: {error}")
    try:
        return read_literal(value)  # as a table of texts has lists: ['assert f(3) == 6']
    except NotALiteral:
        raise refusal from None


def function_name(name: Any) -> str:
    """Return the name of a function; of `Solution().f` it is `f`."""
    if not name:
        return ""
    plain = str(name).removeprefix("Solution().") if isinstance(name, str) else ""
    if not plain.isidentifier():
        raise BadTests("function: must be the name of a function")
    return plain


def read_arguments(arguments: Any, field: str) -> dict[str, Any]:
    """Return the arguments of a list, or the keyword arguments of an object."""
    if isinstance(arguments, Mapping):
        return {"args": [], "kwargs": read_keywords(arguments, field)}
    if not isinstance(arguments, list):
        raise BadTests(f"{field}: must be a list of arguments, or an object of keyword arguments")
    return {"args": arguments}


def read_keywords(keywords: Any, field: str) -> dict[str, Any]:
    """Return an object of keyword arguments, by the names of the parameters."""
    if not isinstance(keywords, Mapping) or not all(str(name).isidentifier() for name in keywords):
        raise BadTests(f"{field}: must be an object with the names of arguments as keys")
    return dict(keywords)


def read_assignments(text: str, field: str) -> dict[str, Any]:
    """Return the keyword arguments that a text such as `nums = [3, 3], target = 6` gives."""
    source = f"f({text})"
    try:
        [statement] = parse_python(source).body
        call = statement.value if isinstance(statement, ast.Expr) else None
    except (NotPython, ValueError):
        call = None
    if (
        not isinstance(call, ast.Call)
        or call.args
        or any(not keyword.arg for keyword in call.keywords)
    ):
        raise BadTests(f"{field}: must be arguments such as n = 3, base = 2")
    assignments = [
        (keyword.arg, ast.get_source_segment(source, keyword.value)) for keyword in call.keywords
    ]
    return {"args": [], "kwargs": {name: decode_value(value, field) for name, value in assignments}}


def as_text(value: Any, field: str) -> str:
    """Return a text: one as it is, a number as it is written, a list as its lines."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, list) and not any(isinstance(line, list | dict) for line in value):
        return "".join(f"{as_text(line, field)}\n" for line in value)
    raise BadTests(f"{field}: must be text")


def read_text(value: Any, field: str) -> str:
    """Return the value, which must be a text."""
    if not isinstance(value, str):
        raise BadTests(f"{field}: must be text")
    return value
