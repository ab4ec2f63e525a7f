"""Answers with broken signs: what could not be decoded, was decoded wrongly, or cannot be shown."""

import re
import unicodedata
from collections.abc import Sequence

from pydantic import Field

from apps.pipelines.operators.contract import GROUPS, TASKS, OperatorOptions, Sample, Sifted, sift

FAMILY = "clean"
STAGES = (GROUPS, TASKS)
# UTF-8 that was read as Latin-1 or Windows-1252: a lead byte's letter and a continuation byte's
# sign behind it.
_MISREAD = re.compile("[\u00c2-\u00c3\u00e2][\u0080-\u00bf\u20ac\u2122\u0153\u201a-\u201e]")


class Options(OperatorOptions):
    most: float = Field(0.0, ge=0, le=1, description="Maximum share of broken characters.")


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    return sift(samples, lambda sample: _why_not(sample.text, options.most))


def _why_not(text: str, most: float) -> str:
    broken = sum(map(_is_broken, text)) + len(_MISREAD.findall(text))
    share = broken / len(text) if text else 0.0
    return f"{broken} of {len(text)} characters are broken" if share > most else ""


def _is_broken(sign: str) -> bool:
    """Return whether it is the replacement mark, what stands for NUL, a control sign that is no
    blank, or no sign at all.

    Python knows the signs of one version of Unicode; those of later versions are signs as well.
    Code points that no version will ever give to a sign are none.
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
