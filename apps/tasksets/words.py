"""Words of a text, also in scripts that put no blanks between them.

Where a script has no blanks a word is a run of a few signs: one of Chinese, two of Japanese
syllables, four of Thai, Lao, Khmer, Burmese and Tibetan letters. The runs overlap, so that no two
texts differ by where the first one begins.
"""

import re
import unicodedata
from collections.abc import Iterator

HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
KANA = "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"
LETTERS = "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f"
UNSPACED = re.compile(f"[{HAN}{KANA}{LETTERS}]")
RUNS = re.compile(f"([{HAN}]+)|([{KANA}]+)|([{LETTERS}]+)|([^{HAN}{KANA}{LETTERS}]+)")
WIDTHS = (1, 2, 4)  # signs of a word, of the first three kinds of run


def has_blanks(text: str) -> bool:
    """Return whether the text is of scripts that put blanks between words."""
    return UNSPACED.search(text) is None


def iterate_words(text: str) -> Iterator[str]:
    """Yield the words, as they are written."""
    for word in text.split():
        if has_blanks(word):
            yield word
            continue
        for match in RUNS.finditer(word):
            assert match.lastindex is not None  # each run is of one of the kinds
            kind = match.lastindex - 1
            if kind == len(WIDTHS):
                yield match[0]
            else:
                yield from _overlapping(match[0], WIDTHS[kind])


def _overlapping(run: str, width: int) -> Iterator[str]:
    signs = _signs(run)
    for start in range(max(1, len(signs) - width + 1)):
        yield "".join(signs[start : start + width])


def _signs(run: str) -> list[str]:
    """Return letters together with the marks that are written over or under them."""
    signs: list[str] = []
    for character in run:
        if signs and unicodedata.category(character) in ("Mn", "Mc"):
            signs[-1] += character
        else:
            signs.append(character)
    return signs
