"""The features of one reply that a behaviour difference compares."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from apps.rewards.scorers.language import script_of, words_alone

BEGINNING = 300  # characters in which a refusal would be
WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
REFUSAL = re.compile(
    r"\b(?:i\s+(?:am\s+|['’]m\s+)?(?:can\s?not|can['’]t|won['’]t|will\s+not|unable\s+to)"
    r"|i['’]m\s+(?:sorry|afraid),?\s+(?:but\s+)?i\s+(?:can|won)"
    r"|i\s+(?:must|have\s+to)\s+(?:decline|refuse)|as\s+an\s+ai\b)",
    re.IGNORECASE,
)
FORMATS: Mapping[str, re.Pattern] = {
    "a list": re.compile(r"^\s{0,3}(?:[-*+•]|\d{1,3}[.)])\s+\S", re.MULTILINE),
    "a heading": re.compile(r"^#{1,6}\s+\S", re.MULTILINE),
    "a code block": re.compile(r"^```", re.MULTILINE),
    "a table": re.compile(r"^\|.+\|\s*$\n^\|[-:| ]+\|\s*$", re.MULTILINE),
    "bold text": re.compile(r"\*\*[^*\n]{1,200}\*\*"),
    "a formula": re.compile(r"\$[^$\n]{1,500}\$|\\\(|\\\[|\\boxed"),
    "a tag": re.compile(r"</?[a-z][a-z_-]{0,30}>", re.IGNORECASE),
    "JSON": re.compile(r"\A\s*[{\[][\s\S]*[}\]]\s*\Z"),
}
# Common words that tell languages of the Latin script apart.
COMMON_WORDS = {
    "English": "the and is of to you that it for with are this not have your",
    "German": "der die das und ist nicht ein eine zu mit ich sie den für auf",
    "French": "le la les et est une des que pour dans vous je pas du nous",
    "Spanish": "el la los y es una que en para con por su las no del",
    "Italian": "il la di che è un una per con non sono del gli le della",
    "Portuguese": "o a os que é um uma para com não do da em por você",
    "Dutch": "de het een en is van ik niet dat je voor met zijn op aan",
}
LANGUAGES = {name: frozenset(words.split()) for name, words in COMMON_WORDS.items()}
MIN_COMMON_WORDS = 3  # common words of a language, below which it is not named
MAX_LETTERS = 2_000  # letters of which the scripts are counted


@dataclass(frozen=True)
class Features:
    """What a reply is like. `words` are in lower case, in order."""

    words: tuple[str, ...]
    formats: frozenset[str]
    language: str
    refuses: bool
    is_cut: bool


def read(text: str, stop_reason: str) -> Features:
    """Read the features of a reply."""
    words = tuple(match.group().lower() for match in WORD.finditer(text))
    formats = frozenset(name for name, pattern in FORMATS.items() if pattern.search(text))
    refuses = REFUSAL.search(text[:BEGINNING]) is not None
    return Features(words, formats, language_of(text, words), refuses, stop_reason == "length")


def language_of(text: str, words: tuple[str, ...]) -> str:
    """Return the language of a text in Latin letters, else its script; "" if that is not clear."""
    letters = [sign for sign in words_alone(text)[:MAX_LETTERS] if sign.isalpha()]
    if not letters:
        return ""
    scripts = Counter(script_of(sign) for sign in letters)
    script = scripts.most_common(1)[0][0]
    if script != "latin":
        return script.capitalize() if script != "cjk" else "Chinese characters"
    counted = {
        name: sum(word in common_words for word in words)
        for name, common_words in LANGUAGES.items()
    }
    best, second = sorted(counted, key=lambda name: -counted[name])[:2]
    is_clear = counted[best] >= MIN_COMMON_WORDS and counted[best] > counted[second]
    return best if is_clear else ""
