"""How much of a text was said before in it: the share of repeated n-grams."""

LONGEST_WORD = 40  # characters; what is longer is read letter by letter, as are loops without blanks
LONGEST = 400_000  # characters that are looked at


def ngrams(text: str, n: int) -> tuple[int, int]:
    """How many runs of `n` lower-case words there are, and how many of them are different."""
    words = _words(text[:LONGEST])
    total = max(0, len(words) - n + 1)
    return total, len(set(zip(*(words[start:] for start in range(n)), strict=False)))


def repeated_share(text: str, n: int) -> float:
    """1 − different n-grams / n-grams; 0 where there are fewer than two."""
    total, different = ngrams(text, n)
    return 1 - different / total if total > 1 else 0.0


def _words(text: str) -> list[str]:
    return [part for word in text.lower().split() for part in ([word] if len(word) <= LONGEST_WORD else word)]
