"""Filters replies that refuse to answer."""

import re
from collections.abc import Sequence
from functools import lru_cache

from pydantic import Field, field_validator

from apps.pipelines.operators.contract import OperatorOptions, Sample, Sifted, sift
from apps.rewards.final_answer import after_thinking

FAMILY = "clean"
VERSION = 2
# Signs that are not seen, and the apostrophe of printed texts.
PLAIN = {**dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff")), ord("\u2019"): "'"}
# What may stand between the beginning of a clause and a refusal in it.
LEAD_INS = (
    r"(?:(?:but|and|so|well|sorry|unfortunately|however|regrettably|apologies|no"
    r"|(?:i'm|i am)\s(?:(?:really|very|so|deeply)\s)?(?:sorry|afraid)|i apologi[sz]e)\b"
    r"[,:]?\s+){0,3}"
)

NO_REFUSAL = r"(?!\s+(?:but\b|[a-z]{2,20}ing\b))"


class Options(OperatorOptions):
    phrases: tuple[str, ...] = Field(
        (
            "i cannot help",
            "i can't help",
            "i can not help",
            "i cannot assist",
            "i can't assist",
            "i can not assist",
            "i cannot provide",
            "i can't provide",
            "i can not provide",
            "i cannot comply",
            "i can't comply",
            "i can not comply",
            "i cannot fulfill",
            "i can't fulfill",
            "i can not fulfill",
            "i am unable to",
            "i'm unable to",
            "i am not able to",
            "i'm not able to",
            "i won't be able to",
            "i will not be able to",
            "i must decline",
            "i have to decline",
            "i'm sorry, but i can't",
            "i'm sorry, but i cannot",
            "i am sorry, but i can't",
            "i am sorry, but i cannot",
            "as an ai language model",
            "as an ai model",
            "as an ai assistant",
            "as an ai,",
        ),
        min_length=1,
        description="Phrases of a refusal. Upper and lower case are the same.",
    )
    prefix_characters: int = Field(
        200, ge=1, description="Number of characters at the start of the answer to search."
    )

    @field_validator("phrases")
    @classmethod
    def _in_lower_case(cls, phrases: tuple[str, ...]) -> tuple[str, ...]:
        plain = tuple(_plain(phrase).strip() for phrase in phrases)
        if not all(plain):
            raise ValueError("a phrase must have at least one character")
        return plain


def _plain(text: str) -> str:
    return text.translate(PLAIN).lower()


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    """Drop answers in which a clause begins with a refusal phrase.

    Quotations and thoughts do not count.
    """
    pattern = _pattern(options.phrases)
    return sift(samples, lambda sample: _why_not(sample, pattern, options.prefix_characters))


def _why_not(sample: Sample, pattern: re.Pattern[str], prefix_characters: int) -> str:
    beginning = _plain(after_thinking(sample.text)).lstrip()
    match = next(
        (
            candidate
            for candidate in pattern.finditer(beginning)
            if candidate.end() <= prefix_characters
        ),
        None,
    )
    return f"refusal: {match[1][:60]!r}" if match else ""


@lru_cache(maxsize=100)
def _pattern(phrases: tuple[str, ...]) -> re.Pattern[str]:
    """Return what finds a phrase at the beginning of a clause; "can't help but" and
    "can't help laughing" are none.
    """
    either = "|".join(re.escape(phrase) for phrase in sorted(phrases, key=len, reverse=True))
    return re.compile(rf"(?:^|[.!?;,:\n\u2014-])[\s*_#]*{LEAD_INS}({either})(?!\w){NO_REFUSAL}")
