"""Repetition in a text: the share of repeated n-grams."""

import re

from apps.tasksets.words import iterate_words

# Characters; what is longer is read letter by letter, as are loops without blanks.
MAX_WORD_LENGTH = 40
# One sign again and again, without those of which rules and tables are drawn.
_LOOP = re.compile(r"((?![-=_*#|+~.])[^\w\s])\1{15,}")
MAX_REPLY_LENGTH = 400_000  # characters that are looked at


def ngrams(text: str, n: int) -> tuple[int, int]:
    """Count the n-grams of lower-case words, and how many of them are distinct."""
    words = _words(text[:MAX_REPLY_LENGTH])
    total = max(0, len(words) - n + 1)
    return total, len(set(zip(*(words[start:] for start in range(n)), strict=False)))


def repeated_share(text: str, n: int) -> float:
    """Return 1 − different n-grams / n-grams; 0 where there are fewer than two."""
    total, different = ngrams(text, n)
    return 1 - different / total if total > 1 else 0.0


def _words(text: str) -> list[str]:
    """List the words; each character of a run such as !!!!!!!! is a word."""
    text = _LOOP.sub(lambda match: " s" * len(match.group()), text.lower())
    return [
        part
        for word in iterate_words(text)
        for part in ([word] if len(word) <= MAX_WORD_LENGTH else word)
    ]
