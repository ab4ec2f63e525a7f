"""Rewards the share of letters that belong to the expected scripts.

Formulas, code, marks of a text (`<answer>`, `\\boxed`), units behind numbers and single letters
belong to no language: they are left out of the share.
"""

import re
import unicodedata
from collections import Counter

from pydantic import Field, field_validator

from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

VERSION = 3
MAX_REPLY_LENGTH = 400_000  # characters that are looked at
SHOWN = 5  # other scripts named in the details
# Scripts by the first word of the Unicode names of their letters.
SCRIPTS = frozenset(
    {
        "arabic",
        "armenian",
        "balinese",
        "bengali",
        "bopomofo",
        "canadian",
        "cherokee",
        "cjk",
        "coptic",
        "cyrillic",
        "devanagari",
        "ethiopic",
        "georgian",
        "greek",
        "gujarati",
        "gurmukhi",
        "hangul",
        "hebrew",
        "hiragana",
        "javanese",
        "kannada",
        "katakana",
        "khmer",
        "lao",
        "latin",
        "malayalam",
        "mongolian",
        "myanmar",
        "oriya",
        "sinhala",
        "sundanese",
        "syriac",
        "tamil",
        "telugu",
        "thaana",
        "thai",
        "tibetan",
        "tifinagh",
        "yi",
    }
)
# What people call a script otherwise, or a language that is written in it.
OTHERWISE = {
    "han": "cjk",
    "hanzi": "cjk",
    "kanji": "cjk",
    "chinese": "cjk",
    "zh": "cjk",
    "japanese": "hiragana, katakana, cjk",
    "ja": "hiragana, katakana, cjk",
    "kana": "hiragana, katakana",
    "korean": "hangul",
    "ko": "hangul",
    "english": "latin",
    "en": "latin",
    "roman": "latin",
    "german": "latin",
    "french": "latin",
    "spanish": "latin",
    "russian": "cyrillic",
    "ru": "cyrillic",
    "hindi": "devanagari",
    "burmese": "myanmar",
}
# First words of names that tell no script.
SAME_AS = {"ideographic": "cjk", "fullwidth": "latin", "halfwidth": "katakana"}
COMMAND = r"\\[A-Za-z]+\*?(?:\{[^{}]{0,200}\}){0,3}"
NAMES = (
    "sin|cos|tan|cot|sec|csc|arcsin|arccos|arctan|log|ln|lg|exp|lim|max|min"
    "|gcd|lcm|mod|det|sqrt|deg"
)
# Signs around what belongs to no language, and whether it ends with its line; what may hold
# others comes first.
ENCLOSED = (
    ("```", "```", False),
    ("$$", "$$", False),
    ("\\[", "\\]", False),
    ("\\(", "\\)", False),
    ("`", "`", True),
    ("$", "$", True),
)
NO_LANGUAGE = (
    re.compile(r"https?://\S{1,2000}"),
    re.compile(r"</?[A-Za-z][A-Za-z0-9_-]{0,40}>"),
    re.compile(COMMAND),
    re.compile(rf"(?<![A-Za-z])(?:{NAMES})(?![A-Za-z])(?=\s?[({{\d\\^_A-Za-z])"),
    re.compile(r"(?<![A-Za-z])[A-Za-z]{2,3}(?=\s?[=+*/^<>])"),
    re.compile(r"(?:(?<=[=+*/^<>])|(?<=[=+*/^<>]\s))[A-Za-z]{2,3}(?![A-Za-z])"),
    re.compile(r"(?<![A-Za-z])[A-Z]{2,4}\d{0,3}(?![A-Za-z])"),  # points, abbreviations: ABC, DNA
    re.compile(r"(?<=\d)\s?(?:[A-Za-z]{1,3}(?:/[A-Za-z]{1,3})?)(?![A-Za-z])"),
    re.compile(r"(?<![A-Za-z])[A-Za-z](?:[_^]?\{?\d{1,3}\}?)?(?![A-Za-z'\u2019])"),
)


def require_scripts(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names.

    Raises ValueError for one that is no script's, whose share would be 0 for ever.
    """
    for name in names:
        if name.lower() not in SCRIPTS:
            instead = OTHERWISE.get(name.lower())
            hint = f"say {instead}" if instead else f"known: {', '.join(sorted(SCRIPTS))}"
            raise ValueError(f"unknown script {name!r}; {hint}")
    return names


class Options(ScorerOptions):
    scripts: tuple[str, ...] = Field(
        ("latin",), min_length=1, description="Of Unicode: latin, cyrillic, cjk, arabic, …"
    )
    ascii: bool = Field(
        False,
        description=(
            "Accept only ASCII letters as the script, and also count characters that "
            "are not letters."
        ),
    )
    min_share: float = Field(
        0.0, ge=0, le=1, description="A share below this value gets no reward."
    )

    @field_validator("scripts")
    @classmethod
    def require_known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return require_scripts(names)


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """Return letters of the scripts / all letters of words, from 0 to 1.

    1 for an answer without any, 0 for an empty one.
    """
    text = rollout.text[:MAX_REPLY_LENGTH]
    if not text.strip():
        return Verdict(0.0, "nothing was said")
    signs = Counter(text if options.ascii else words_alone(text))
    letter_counts = {sign: times for sign, times in signs.items() if _is_counted(sign, options)}
    total = sum(letter_counts.values())
    if not total:
        return Verdict(1.0, "it has no letters")
    expected = {name.lower() for name in options.scripts}
    other_scripts: Counter[str] = Counter()
    for sign, times in letter_counts.items():
        if not (sign.isascii() if options.ascii else script_of(sign) in expected):
            other_scripts[script_of(sign)] += times
    share = 1 - other_scripts.total() / total
    details = {"share": round(share, 4), "others": dict(other_scripts.most_common(SHOWN))}
    return Verdict(
        share if share >= options.min_share else 0.0,
        f"{share:.0%} is in the required scripts",
        details,
    )


def words_alone(text: str) -> str:
    """Return the text without formulas, code, marks, units and single letters of the alphabet."""
    for begin, end, is_of_line in ENCLOSED:
        text = _remove_enclosed(text, begin, end, is_of_line)
    for pattern in NO_LANGUAGE:
        text = pattern.sub(" ", text)
    return text


def _remove_enclosed(text: str, begin: str, end: str, is_of_line: bool) -> str:
    """Return the text without what stands between these signs; one that is not closed encloses
    nothing but code."""
    parts: list[str] = []
    at = 0
    while (start := text.find(begin, at)) >= 0:
        stop = text.find(end, start + len(begin))
        if stop < 0:
            if begin == "```":
                return "".join([*parts, text[at:start]])
            break
        if is_of_line and "\n" in text[start:stop]:
            parts.append(text[at:stop])
            at = stop
            continue
        parts += [text[at:start], " "]
        at = stop + len(end)
    return "".join([*parts, text[at:]])


def _is_counted(sign: str, options: Options) -> bool:
    return not sign.isspace() if options.ascii else sign.isalpha() and not _is_mathematical(sign)


def _is_mathematical(sign: str) -> bool:
    """Return whether it is one of the letters that Unicode keeps for formulas."""
    return 0x1D400 <= ord(sign) <= 0x1D7FF or 0x2100 <= ord(sign) <= 0x214F


def script_of(sign: str) -> str:
    """Return the script by the sign's Unicode name, whose first word says it of a letter."""
    word = unicodedata.name(sign, "unknown").split()[0].partition("-")[0].lower()
    return SAME_AS.get(word, word)
