"""Ask math-verify about what our own reading does not compute: integrals, sums, limits.

Its own time limits are signals and stay off: the process that scores is ended from outside.
What could be large is not given to it.
"""

import logging
import re

MAX_FORMULA_LENGTH = 200
_KNOWN = re.compile(r"\\(?:int|sum|prod|lim|partial|det)(?![a-zA-Z])|\\frac\{d")
_LARGE = re.compile(r"\d{6}|!|\^[^^]*\^|\^\s*\{?\s*-?\s*\d{3}|\\(?:prod|binom)|factorial|Gamma")


def knows(expected: str) -> bool:
    """Tell whether the library is asked about this reference at all."""
    is_small = len(expected) <= MAX_FORMULA_LENGTH and not _LARGE.search(expected)
    return is_small and bool(_KNOWN.search(expected))


def load_library() -> None:
    """Import the library, which takes seconds."""
    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns of limits that are off
    import math_verify.parser  # noqa: F401


def same_for_the_library(expected: str, answer: str) -> bool:
    """Tell whether math-verify finds both equal; False for texts that we do not pass to it.

    It evaluates what the reference leaves open; if the answer leaves it open, too, we compare them.
    """
    if not knows(expected) or not 0 < len(answer) <= MAX_FORMULA_LENGTH:
        return False
    if _LARGE.search(answer) or _KNOWN.search(answer):
        return False
    load_library()
    from math_verify import verify
    from math_verify.parser import parse_latex_cached

    try:
        expected_expressions = parse_latex_cached(expected)
        answer_expressions = parse_latex_cached(answer)
        return bool(verify(expected_expressions, answer_expressions, timeout_seconds=None))
    except Exception:  # whatever the libraries raise on hostile text: not the same for them
        return False
