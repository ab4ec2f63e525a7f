"""Answers that refuse to answer."""

import re
from collections.abc import Sequence
from functools import lru_cache

from pydantic import Field

from apps.pipelines.operators.contract import OperatorOptions, Sample, Sifted, sift

FAMILY = "clean"
THOUGHTS_END = "</think>"
# What may stand between the beginning of a clause and a refusal in it.
LEAD_INS = (
    r"(?:(?:but|and|so|well|sorry|unfortunately|however|regrettably|apologies|no)\b[,:]?\s+){0,3}"
)


class Options(OperatorOptions):
    phrases: tuple[str, ...] = Field(
        (
            "i cannot help",
            "i can't help",
            "i cannot assist",
            "i can't assist",
            "i am unable to",
            "i'm unable to",
            "i'm sorry, but i can",
            "i am sorry, but i can",
            "as an ai language model",
            "as an ai model",
            "as an ai assistant",
            "as an ai,",
            "i cannot provide",
            "i can't provide",
        ),
        min_length=1,
        description="Phrases of a refusal, in lower case.",
    )
    within: int = Field(
        200, ge=1, description="Number of characters at the start of the answer to search."
    )


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    """Drop answers in which a clause begins with a refusal phrase.

    Quotations and thoughts do not count.
    """
    pattern = _pattern(options.phrases)
    return sift(samples, lambda sample: _why_not(sample, pattern, options.within))


def _why_not(sample: Sample, pattern: re.Pattern[str], within: int) -> str:
    answer = sample.text.rpartition(THOUGHTS_END)[2].lstrip()
    beginning = answer.lower().replace("\u2019", "'")
    found = next((one for one in pattern.finditer(beginning) if one.end() <= within), None)
    return f"refusal: {found[1][:60]!r}" if found else ""


@lru_cache(maxsize=100)
def _pattern(phrases: tuple[str, ...]) -> re.Pattern[str]:
    """Return what finds a phrase at the beginning of a clause; "can't help but" is none."""
    either = "|".join(re.escape(phrase) for phrase in sorted(phrases, key=len, reverse=True))
    return re.compile(rf"(?:^|[.!?;,:\n\u2014-])[\s*_#]*{LEAD_INS}({either})(?!\w)(?!\s+but\b)")
