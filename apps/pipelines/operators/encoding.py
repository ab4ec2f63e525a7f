"""Answers with broken signs: what could not be decoded, was decoded wrongly, or cannot be shown."""

import re
import unicodedata
from collections.abc import Sequence

from pydantic import Field

from apps.pipelines.operators.contract import GROUPS, TASKS, OperatorOptions, Sample, Sifted, sift

FAMILY = "clean"
STAGES = (GROUPS, TASKS)
# UTF-8 that was read as Latin-1 or Windows-1252: a lead byte's letter and a continuation byte's sign behind it.
_MISREAD = re.compile("[\u00c2-\u00c3\u00e2][\u0080-\u00bf\u20ac\u2122\u0153\u201a-\u201e]")


class Options(OperatorOptions):
    most: float = Field(0.0, ge=0, le=1, description="Share of broken signs that is let through.")


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    return sift(samples, lambda sample: _why_not(sample.text, options.most))


def _why_not(text: str, most: float) -> str:
    broken = sum(map(_is_broken, text)) + len(_MISREAD.findall(text))
    share = broken / len(text) if text else 0.0
    return f"{broken} of its {len(text)} signs are broken" if share > most else ""


def _is_broken(sign: str) -> bool:
    """The replacement mark, what stands for NUL, a control sign that is no blank, or no sign at all."""
    return sign in "\ufffd\u2400" or (unicodedata.category(sign) in ("Cc", "Cn", "Co", "Cs") and sign not in "\n\r\t")
