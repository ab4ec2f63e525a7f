"""Repetition in a text: the share of repeated n-grams."""

from apps.tasksets.words import iterate_words

# Characters; what is longer is read letter by letter, as are loops without blanks.
LONGEST_WORD = 40
LONGEST = 400_000  # characters that are looked at


def ngrams(text: str, n: int) -> tuple[int, int]:
    """Count the n-grams of lower-case words, and how many of them are distinct."""
    words = _words(text[:LONGEST])
    total = max(0, len(words) - n + 1)
    return total, len(set(zip(*(words[start:] for start in range(n)), strict=False)))


def repeated_share(text: str, n: int) -> float:
    """Return 1 − different n-grams / n-grams; 0 where there are fewer than two."""
    total, different = ngrams(text, n)
    return 1 - different / total if total > 1 else 0.0


def _words(text: str) -> list[str]:
    return [
        part
        for word in iterate_words(text.lower())
        for part in ([word] if len(word) <= LONGEST_WORD else word)
    ]
