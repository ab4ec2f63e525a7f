"""Read a text that is one value in words of other languages than English, and nothing else.

Chinese and Japanese: 百分之五, 四分之三, 3分の2, 负七. German, French, Spanish and Russian: drei
Viertel, cinq pour cent, menos siete, сорок два.
"""

import re

from apps.rewards import number_words

MAX_TEXT_LENGTH = 60  # characters
_SIGN = re.compile(r"(?:minus|moins|menos|минус)\s|负|負|マイナス", re.I)
_PERCENT = re.compile(
    r"\s?(?:prozent|pour\s?cent|por\s?ciento|per\scento|процент(?:а|ов)?|パーセント)", re.I
)
# Names of parts, in the forms that stand behind one and behind several.
_PARTS = {
    name: value
    for value, names in {
        2: "halb halbe halbes hälfte demi demie moitié medio media mitad половина вторая вторых",
        3: "drittel tiers tercio tercios треть трети третья третьих",
        4: "viertel quart quarts cuarto cuartos четверть четверти четвёртая четвёртых",
        5: "fünftel cinquième cinquièmes quinto quintos пятая пятых",
        6: "sechstel sixième sixièmes sexto sextos шестая шестых",
        7: "siebtel septième septièmes séptimo séptimos седьмая седьмых",
        8: "achtel huitième huitièmes octavo octavos восьмая восьмых",
        9: "neuntel neuvième neuvièmes noveno novenos девятая девятых",
        10: "zehntel dixième dixièmes décimo décimos десятая десятых",
        12: "zwölftel douzième douzièmes",
        100: "hundertstel centième centièmes centésimo centésimos сотая сотых",
    }.items()
    for name in names.split()
}
_ONES = frozenset(("ein", "eine", "eines", "un", "une", "una", "один", "одна"))
_TWOS = {"две": 2, "одна": 1, "eine": 1, "ein": 1, "une": 1, "una": 1, "zwo": 2}
_ARTICLES = re.compile(r"^(?:die|das|der|la|le|el)\s")
_HALVES = {"anderthalb": 3, "eineinhalb": 3, "zweieinhalb": 5, "dreieinhalb": 7, "полтора": 3}
_LARGE = {
    **dict.fromkeys(("hundert", "einhundert", "cien", "сто"), 100),
    **dict.fromkeys(("tausend", "eintausend", "mille", "mil", "тысяча", "одна тысяча"), 1000),
}
_CHINESE_DIGITS = "零一二三四五六七八九"
_NUMERAL = (
    r"[零〇一二两兩三四五六七八九十百千万萬亿億]{1,20}(?:[点點][零〇一二三四五六七八九]{1,12})?"
)
_VALUE = rf"(?:\d{{1,12}}(?:\.\d{{1,12}})?|{_NUMERAL})"
_IN_CJK = re.compile(
    rf"(?:百分之(?P<percent>{_VALUE})|(?P<of>千分之)(?P<per_mille>{_VALUE})"
    rf"|(?:(?P<whole>{_VALUE})(?:又|と))?(?P<bottom>{_VALUE})分[之の](?P<top>{_VALUE})"
    rf"|(?P<half>一半|半分|二分之一)|(?P<number>{_NUMERAL}))"
)


def in_figures(text: str) -> str:
    """Return the value as LaTeX of figures, "-\\\\frac{2}{3}"; "" for what is no such value."""
    if len(text) > MAX_TEXT_LENGTH:
        return ""
    plain = " ".join(text.lower().split()).strip(" .!。")
    sign = _SIGN.match(plain)
    plain = plain[sign.end() :] if sign else plain
    percent = _PERCENT.search(plain)
    is_percent = percent is not None and percent.end() == len(plain)
    value = plain[: percent.start()] if percent and is_percent else plain
    figures = _in_cjk(value) or _in_letters(value)
    if (not figures and sign) or is_percent:
        figures = figures or (value if re.fullmatch(r"\d{1,12}(?:[.,]\d{1,12})?", value) else "")
    return f"{'-' if sign else ''}{figures}{'%' if is_percent else ''}" if figures else ""


def _in_letters(plain: str) -> str:
    """Read German, French, Spanish and Russian."""
    plain = _ARTICLES.sub("", plain)
    if plain in _HALVES:
        return f"\\frac{{{_HALVES[plain]}}}{{2}}"
    times, _, part = plain.rpartition(" ")
    if part in _PARTS:
        count = 1 if not times or times in _ONES else _whole(times)
        return f"\\frac{{{count}}}{{{_PARTS[part]}}}" if count else ""
    number = _whole(plain)
    return "" if number is None else str(number)


def _whole(words: str) -> int | None:
    if words in _TWOS or words in _LARGE:
        return _TWOS.get(words) or _LARGE[words]
    digits = number_words.in_digits(words) if re.search(r"[^\W\d_]", words) else ""
    return int(digits) if re.fullmatch(r"\d{1,9}", digits) else None


def _in_cjk(plain: str) -> str:
    """Read Chinese and Japanese."""
    match = _IN_CJK.fullmatch(plain.replace(" ", ""))
    if match is None:
        return ""
    if match["half"]:
        return "\\frac{1}{2}"
    if match["percent"]:
        return f"{_digits(match['percent'])}%"
    if match["per_mille"]:
        return f"\\frac{{{_digits(match['per_mille'])}}}{{1000}}"
    if match["number"]:
        return _digits(match["number"])
    top = _digits(match["top"])
    bottom = _digits(match["bottom"])
    if not match["whole"]:
        return f"\\frac{{{top}}}{{{bottom}}}"
    whole = _digits(match["whole"])
    is_proper = all(digits.isdigit() for digits in (whole, top, bottom)) and int(top) < int(bottom)
    return f"\\frac{{{int(whole) * int(bottom) + int(top)}}}{{{bottom}}}" if is_proper else ""


def _digits(numeral: str) -> str:
    """Return a numeral in digits, with its decimals."""
    if numeral[0].isdecimal() and numeral.isascii():
        return numeral
    whole, _, decimals = re.sub("[點]", "点", numeral.replace("〇", "零")).partition("点")
    digits = number_words.chinese_number(whole)
    behind = "".join(str(_CHINESE_DIGITS.index(sign)) for sign in decimals)
    return f"{digits}.{behind}" if behind else str(digits)
