"""Run regular expressions that people write, in time proportional to the text.

Python's `re` backtracks: a pattern of ten characters can hold a process for hours. Patterns from
outside are therefore compiled here, by RE2, which has no look-arounds and no backreferences.
Our own patterns stay with `re`; tests/architecture/test_regular_expressions.py times each of them.
"""

import re
from functools import lru_cache
from typing import Any

import re2

MAX_PATTERN_LENGTH = 2_000  # characters
COMPILED_BYTES = 1 << 20  # memory of one compiled pattern
KEPT = 256  # compiled patterns
# JSON Schema's dialect writes \u0041 where RE2 writes \x{0041}. The first branch skips escaped
# backslashes.
UNICODE_ESCAPE = re.compile(r"(\\\\)|\\u([0-9A-Fa-f]{4})")
UNSUPPORTED = (
    (re.compile(r"\(\?<?[=!]"), "look-arounds, (?=…) (?!…) (?<=…) (?<!…), are not supported"),
    (re.compile(r"\\[1-9]|\\k<|\(\?P="), "backreferences, such as \\1, are not supported"),
)


class BadPattern(ValueError):
    """Raised for a pattern that cannot be used; the message names the field and says why."""


def compile_pattern(pattern: str, field: str) -> Any:
    """Return an object with `search(text)`.

    Raises BadPattern; `field` says where the pattern was written.
    """
    try:
        return _compiled(pattern)
    except BadPattern as error:
        raise BadPattern(f"{field}: {error}") from None


@lru_cache(KEPT)
def _compiled(pattern: str) -> Any:
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise BadPattern(
            f"a pattern can have {MAX_PATTERN_LENGTH} characters; this one has {len(pattern)}"
        )
    options = re2.Options()
    options.max_mem = COMPILED_BYTES
    options.never_capture = True
    options.log_errors = False
    try:
        return re2.compile(UNICODE_ESCAPE.sub(_as_re2, pattern), options)
    except (re2.error, UnicodeEncodeError) as error:
        raise BadPattern(f"{pattern[:100]!r} is not supported: {_reason(pattern, error)}") from None


def _as_re2(match: re.Match[str]) -> str:
    return match[1] or rf"\x{{{match[2]}}}"


def _reason(pattern: str, error: Exception) -> str:
    for sign, reason in UNSUPPORTED:
        if sign.search(pattern):
            return reason
    message = error.args[0] if error.args else "not a regular expression"
    return message.decode(errors="replace") if isinstance(message, bytes) else str(message)
