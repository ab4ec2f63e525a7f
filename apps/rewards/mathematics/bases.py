"""Read numbers with their base: 101_{two}, 101 (base 2), 0b101, 0xFF."""

import re

from apps.rewards.number_words import BELOW_TWENTY

_BASES = {word: number for word, number in BELOW_TWENTY.items() if number > 1}
_SPELLED = re.compile(rf"_\s?\{{\s?\\text\s?\{{\s?({'|'.join(_BASES)})\s?\}}\s?\}}", re.I)
_SAID = re.compile(
    r"(?<![\w.])(?:0[bB](?P<two>[01]{1,64})|0[xX](?P<sixteen>[0-9A-Fa-f]{1,16})"
    r"|0[oO](?P<eight>[0-7]{1,22}))(?!\w)"
    r"|(?<![\w.])(?P<digits>[0-9A-F]{1,64})\s?\(?\s?(?:in\s)?base[\s-](?P<base>\d{1,2})(?!\d)\)?"
)
_HEXADECIMAL = re.compile(r"(?=[0-9]{0,16}[A-F])[0-9A-F]{1,16}", re.I)
_ASKS_HEXADECIMAL = re.compile(
    r"hexad|\bbase[\s-](?:16|sixteen)\b|十六进制|16进制|шестнадцат", re.I
)
_SET_AS = re.compile(r"\\(?:text\w{0,2}|mathrm)\s?\{([^{}]{0,40})\}")
_BASE_BEHIND = re.compile(r"_\s?\{?\s?(?:16|hex)\s?\}?$|₁₆$|\s?\(?(?:base\s16|hex)\)?$", re.I)


def with_indices(text: str) -> str:
    """Write the base behind each number as an index in figures."""
    return _SPELLED.sub(_as_index, _SAID.sub(_in_figures, text))


def _as_index(match: re.Match) -> str:
    return f"_{{{_BASES[match[1].lower()]}}}"


def _in_figures(match: re.Match) -> str:
    if match["digits"]:
        return f"{match['digits']}_{{{match['base']}}}"
    name = next(name for name in ("two", "eight", "sixteen") if match[name])
    return f"{match[name]}_{{{_BASES[name]}}}"


def plain_hexadecimal(text: str, prompt: str) -> str:
    """Return FF of 0xFF, ff and FF_{16}, where the task asks for base 16; else ""."""
    if not _ASKS_HEXADECIMAL.search(prompt):
        return ""
    bare = _SET_AS.sub(r"\1", text).strip("$ .")
    digits = re.sub(r"^0[xX]|[()]", "", _BASE_BEHIND.sub("", bare).strip())
    return digits.upper() if _HEXADECIMAL.fullmatch(digits) else ""
