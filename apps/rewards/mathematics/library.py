"""math-verify, for what our own reading does not know: integrals, sums, limits, derivatives.

Its own time limits are signals and stay off: the process that scores is ended from outside. What could be large is not given to it.
"""

import logging
import re

LONGEST = 200
_KNOWN = re.compile(r"\\(?:int|sum|prod|lim|partial|det|vec|hat|overline|bar|begin)(?![a-zA-Z])|\\frac\{d")
_LARGE = re.compile(r"\d{6}|!|\^[^^]*\^|\^\s*\{?\s*-?\s*\d{3}|\\(?:prod|binom)|factorial|Gamma")


def same_for_the_library(wanted: str, said: str) -> bool:
    """Whether math-verify finds both the same; False for what it is not asked about."""
    if (
        not (_KNOWN.search(wanted) and 0 < len(said) <= LONGEST and len(wanted) <= LONGEST)
        or _LARGE.search(said)
        or _LARGE.search(wanted)
    ):
        return False
    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns of the time limits that are off
    from math_verify import verify
    from math_verify.parser import parse_latex_cached

    try:
        return bool(verify(parse_latex_cached(wanted), parse_latex_cached(said), timeout_seconds=None))
    except Exception:  # whatever the two libraries raise on hostile text: it is not the same answer for them
        return False
