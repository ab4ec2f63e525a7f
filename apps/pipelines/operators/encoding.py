"""Filters replies with broken characters: undecodable, wrongly decoded or not printable."""

import re
import unicodedata
from collections.abc import Sequence

from pydantic import Field

from apps.pipelines.operators.contract import GROUPS, TASKS, OperatorOptions, Sample, Sifted, sift

FAMILY = "clean"
STAGES = (GROUPS, TASKS)
VERSION = 2
# UTF-8 that was read as Latin-1 or Windows-1252: a lead byte's letter and the signs of continuation
# bytes behind it. Letters that also stand before a quotation mark or a blank, as in "CAFÉ»", count
# only where several such letters follow each other.
_BEHIND = (
    "[\u0080-\u00bf\u20ac\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152"
    "\u017d\u2018\u2019\u201c\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\u017e\u0178]"
)
_MISREAD = re.compile(
    "[\u00c2-\u00c3\u00e2][\u0080-\u00bf\u20ac\u2122\u0153\u201a-\u201e]"
    f"|(?:[\u00c2-\u00df]{_BEHIND}){{2,}}"
    f"|(?:[\u00e3-\u00e9]{_BEHIND}{{2}}){{2,}}"
    f"|\u00f0\u0178{_BEHIND}{{2}}"
)


class Options(OperatorOptions):
    max_broken_share: float = Field(
        0.0, ge=0, le=1, description="Maximum share of broken characters."
    )


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    return sift(samples, lambda sample: _why_not(sample.text, options.max_broken_share))


def _why_not(text: str, max_share: float) -> str:
    broken = sum(map(_is_broken, text)) + len(_MISREAD.findall(text))
    share = broken / len(text) if text else 0.0
    return f"{broken} of {len(text)} characters are broken" if share > max_share else ""


def _is_broken(sign: str) -> bool:
    """Return whether a character shows a broken encoding.

    These are the replacement mark, the mark for NUL, control characters other than blanks, and
    unassigned code points.
    """
    if sign in "\ufffd\u2400":
        return True
    category = unicodedata.category(sign)
    if category == "Cn":
        return _is_never_a_sign(ord(sign))
    return category in ("Cc", "Co", "Cs") and sign not in "\n\r\t"


def _is_never_a_sign(code: int) -> bool:
    """Return whether the code point is one of Unicode's noncharacters, or in a plane that holds
    no signs.
    """
    is_noncharacter = 0xFDD0 <= code <= 0xFDEF or code & 0xFFFE == 0xFFFE
    return is_noncharacter or 0x40000 <= code < 0xE0000
