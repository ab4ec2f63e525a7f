"""Read a text that is one value in words and nothing else: two thirds, two and a half.

Only what has one meaning is read: "twenty fifth" may be a place, "one second" a time, "a hundred
and two fifths" 100.4 or 20.4.
"""

import re

from apps.rewards import foreign_values, number_words

MAX_TEXT_LENGTH = 100  # characters
_DENOMINATORS = {
    word: value
    for value, words in {
        2: "half halve",
        3: "third",
        4: "fourth quarter",
        5: "fifth",
        6: "sixth",
        7: "seventh",
        8: "eighth",
        9: "ninth",
        10: "tenth",
        11: "eleventh",
        12: "twelfth",
        13: "thirteenth",
        14: "fourteenth",
        15: "fifteenth",
        16: "sixteenth",
        17: "seventeenth",
        18: "eighteenth",
        19: "nineteenth",
        20: "twentieth",
        30: "thirtieth",
        40: "fortieth",
        50: "fiftieth",
        60: "sixtieth",
        70: "seventieth",
        80: "eightieth",
        90: "ninetieth",
        100: "hundredth",
        1000: "thousandth",
        10**6: "millionth",
    }.items()
    for word in words.split()
}
_DIGIT_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_DIGITS = {word: str(value) for value, word in enumerate(_DIGIT_WORDS)}
_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_GROUPS = re.compile(r"\b(?:dozen|score|couple|pair|and)s?\b")
_DENOMINATOR = rf"(?P<tens>(?:{_TENS})-)?(?P<part>{'|'.join(_DENOMINATORS)})(?P<plural>s?)"
_FRACTION = re.compile(rf"(?P<times>[a-z][a-z -]*?)(?P<joint>[ -]){_DENOMINATOR}")
_MIXED = re.compile(r"(?P<whole>[a-z -]+|\d{1,15}) and (?P<rest>.+)")
_DECIMAL = re.compile(
    r"(?P<whole>[a-z -]*?) ?\bpoint(?P<digits>(?: (?:" + "|".join(_DIGITS) + r"))+)"
)


def in_figures(text: str) -> str:
    """Return the value as LaTeX of figures, "-\\frac{2}{3}"; "" for what is no such value."""
    if len(text) > MAX_TEXT_LENGTH:
        return ""
    plain = " ".join(text.lower().replace("‑", "-").split()).rstrip(" .!")
    plain = plain.replace("-and-a-", " and a ")
    if plain == "none":  # as a program prints that it has found nothing
        return ""
    sign = re.match(r"(?:minus|negative) ", plain)
    value, is_percent = _without_percent(plain[sign.end() :] if sign else plain)
    figures = _decimal(value) or _as_latex(_fraction(value) or _mixed(value)) or _whole(value)
    if not figures:
        return foreign_values.in_figures(text)
    return f"{'-' if sign else ''}{figures}{'%' if is_percent else ''}"


def _without_percent(plain: str) -> tuple[str, bool]:
    value = re.sub(r" per ?cent$", "", plain)
    return value, value != plain


def _as_latex(value: tuple[int, int] | None) -> str:
    return f"\\frac{{{value[0]}}}{{{value[1]}}}" if value else ""


def _whole(words: str) -> str:
    digits = number_words.in_digits(words)
    return digits if re.fullmatch(r"\d{1,20}", digits) else ""


def _below_hundred(words: str) -> str:
    """Return the number beside a fraction: "a dozen and a half" has no single meaning."""
    digits = "" if _GROUPS.search(words) else _whole(words)
    return digits if len(digits) < 3 else ""


def _fraction(plain: str) -> tuple[int, int] | None:
    """Read one half, three-quarters and twenty-two sevenths as two numbers."""
    if plain == "half":
        return 1, 2
    match = _FRACTION.fullmatch(plain)
    if match is None or (match["joint"] == "-" and re.search("[ -]", match["times"])):
        return None
    is_one = match["times"] in ("a", "an", "one")
    times = "1" if is_one else _below_hundred(match["times"])
    is_halves = match["part"] == "halve"
    if not times or is_one == bool(match["plural"]) or (is_halves and is_one):
        return None  # "twenty fifth" is a place, "one thirds" nothing
    tens = int(_whole(match["tens"].rstrip("-"))) if match["tens"] else 0
    part = _DENOMINATORS[match["part"]]
    is_twentieth = match["joint"] == "-" and re.fullmatch(_TENS, match["times"]) and part < 10
    if (tens and part > 9) or is_twentieth:
        return None
    return int(times), tens + part


def _mixed(plain: str) -> tuple[int, int] | None:
    """Read two and a half, one and three quarters."""
    match = _MIXED.fullmatch(plain)
    part = _fraction(match["rest"]) if match else None
    whole = _below_hundred(match["whole"]) if match else ""
    if part is None or not whole or part[0] >= part[1]:
        return None
    return int(whole) * part[1] + part[0], part[1]


def _decimal(plain: str) -> str:
    """Read three point one four."""
    match = _DECIMAL.fullmatch(plain)
    if match is None:
        return ""
    whole = _whole(match["whole"]) if match["whole"] else "0"
    return f"{whole}.{''.join(_DIGITS[word] for word in match['digits'].split())}" if whole else ""
