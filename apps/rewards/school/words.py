"""Split texts into the stems of their words, without accents, marks and articles."""

import re
import unicodedata

MAX_TEXT_LENGTH = 20_000  # characters that are read
BEFORE = 4  # words in front of an idea in which a "not" denies it
MAX_WORDS_BETWEEN = 2  # other words between two words of an idea
NEGATIONS = frozenset(
    {
        "no",
        "not",
        "never",
        "none",
        "neither",
        "nor",
        "cannot",
        "without",
        "isnt",
        "arent",
        "wasnt",
        "werent",
        "doesnt",
        "dont",
        "didnt",
        "cant",
        "couldnt",
        "wont",
        "wouldnt",
        "hasnt",
        "havent",
        "nothing",
        "false",
        "incorrect",
        "wrong",
        "untrue",
        "unlike",
        "lack",
        "lacks",
        "instead",
        "doubt",
        "hardly",
        "nobody",
        "scarcely",
        "unlikely",
        *"不没没非無",
    }
)
FILLERS = frozenset(
    {
        "a",
        "an",
        "th",
        "the",
        "it",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "that",
        "this",
        "they",
        "them",
        "he",
        "she",
        "thi",
        "its",
        "of",
        "in",
        "on",
        "to",
        "and",
        "by",
        "for",
        "so",
        "there",
        "i",
        "think",
        "called",
        "call",
        "answer",
        "correct",
        "right",
        "fin",
        "final",
        "would",
        "because",
        "s",
        "my",
        "we",
    }
)
ALTERNATIVES = re.compile(
    r"\b(?:or|oder|ou|или|either|maybe|perhaps|possibly|vielleicht|quizás?|возможно|наверное)\b"
    r"|或|可能|也许|大概|たぶん|多分|おそらく|かもしれ",
    re.I,
)
# A word; of scripts without blanks each sign.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")
SEPARATOR = re.compile(r"[,;:/\n•]|\s[-–]\s|\b(?:and|or)\b|、|，|；", re.I)
_ENDINGS = ("ations", "ation", "ings", "ing", "edly", "ies", "ied", "ed", "es", "ly", "s", "e")


def stem_words(text: str) -> list[str]:
    """Return stems in lower case, without accents and marks."""
    plain = unicodedata.normalize("NFKD", text[:MAX_TEXT_LENGTH].lower().replace("’", "'"))
    plain = (
        "".join(sign for sign in plain if not unicodedata.combining(sign))
        .replace("n't", "nt")
        .replace("'", "")
    )
    return [stem(word) for word in _WORD.findall(plain)]


def stem(word: str) -> str:
    """Strip the ending of a plural, a tense or an adverb, if at least three letters are left."""
    if word in NEGATIONS:
        return word
    ending = next(
        (ending for ending in _ENDINGS if word.endswith(ending) and len(word) - len(ending) >= 3),
        "",
    )
    return word[: len(word) - len(ending)] if ending else word


def content(text: str) -> list[str]:
    """Return the stems without articles and such words."""
    stems = stem_words(text)
    return [stem for stem in stems if stem not in FILLERS] or stems


def follows(clause: list[str], place: int, way: list[str]) -> bool:
    """Tell whether the words of an idea stand from here on, with few others between them."""
    if clause[place] != way[0]:
        return False
    for word in way[1:]:
        place = place + 1
        between = 0
        while place < len(clause) and clause[place] != word:
            between += clause[place] not in FILLERS
            if between > MAX_WORDS_BETWEEN or clause[place] in NEGATIONS:
                return False
            place += 1
        if place == len(clause):
            return False
    return True
