"""Read numbers in words (twenty-one, a dozen, 1.2 million, 二十一) and write them in digits."""

import re
from fractions import Fraction

from apps.rewards import foreign_number_words

BELOW_TWENTY = {
    "none": 0,
    "zero": 0,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
    "thirteen": 13,
    "fourteen": 14,
    "fifteen": 15,
    "sixteen": 16,
    "seventeen": 17,
    "eighteen": 18,
    "nineteen": 19,
}
_TENS = {
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "seventy": 70,
    "eighty": 80,
    "ninety": 90,
}
_SCALES = {
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
    "k": 10**3,
    "m": 10**6,
    "mn": 10**6,
    "mio": 10**6,
    "bn": 10**9,
    "b": 10**9,
    "tn": 10**12,
    **dict.fromkeys("万萬", 10**4),
    **dict.fromkeys("亿億", 10**8),
}
_GROUPS = {"dozen": 12, "score": 20, "couple": 2, "pair": 2}
_WHOLE = ("thousand", "million", "billion", "trillion")
# Numbers in other languages, where they stand alone; "eins" and "deux" are no English words.
_OTHERS = {
    word: value
    for line in (
        "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
        "zéro un deux trois quatre cinq six sept huit neuf dix onze douze",
        "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce",
        "ноль один два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать",
    )
    for value, word in enumerate(line.split())
    if word not in ("six", "once")
}
_OTHERS |= foreign_number_words.up_to_99()
_OTHERS |= dict.fromkeys(
    ("eine million", "un million", "un millón", "миллион", "один миллион"), 10**6
)
_THERE_ARE = r"(?:es\s)?(?:sind|gibt)|il\sy\s(?:en\s)?a|ce\ssont|c['’]est|hay|son|их|всего"
_NO_NUMBER = (
    "cents?|mille|mil|hundert|tausend|millionen|millions|millones|сот|тысяч[аи]?|und|et|y|i|e|ou"
    "|oder|o|или|и|or|ni"
)
_ABROAD = re.compile(
    rf"\s*(?:(?:{_THERE_ARE})\s)?({'|'.join(sorted(_OTHERS, key=len, reverse=True))})"
    rf"((?:\s(?!(?:{_NO_NUMBER})(?!\w))[^\W\d_]{{2,20}}){{0,3}})\s*[.!。]?\s*",
    re.I,
)
_AND_A_HALF = re.compile(
    r"(?<!\w)(\w{3,9}) and a half (thousand|million|billion|trillion)(?!\w)", re.I
)
_NOTHING = re.compile(
    r"\bthere (?:is|are|was|were) (?:no|not any)\b"
    r"|\b(?:no|not any) \w+ (?:is|are) (?:shown|visible)\b",
    re.I,
)
# No dogs, keine Hunde; "no ideas" counts nothing.
_NONE = re.compile(
    r"\s*(?:(?:no\s(?!ideas|clues|answers|thoughts|problems)[a-z]{2,20}(?:s|people|children|men"
    r"|fish))"
    r"|(?:keine|aucune?|ningun[oa]s?)(?:\s[^\W\d_]{2,20})?)\s*[.!]?\s*",
    re.I,
)
_SINGLE = re.compile(r"\b(?:a|only one|just one) single(?= [a-z])", re.I)
_ONE = "|".join((*BELOW_TWENTY, *_TENS))
_ANY = f"{_ONE}|(?:hundred|{'|'.join(_WHOLE)})s?"
_SPELLED = re.compile(
    rf"(?<![\w-])(?:(?:a|an)\s)?(?:{_ANY})(?:(?:\s?-\s?|\s|\sand\s)(?:{_ANY})){{0,12}}(?![\w-])",
    re.I,
)
_IN_GROUPS = re.compile(
    rf"(?<![\w-])(?:(half)\s(?:a|an)\s|(?:a|an|({_ONE}|\d{{1,6}}))\s)(dozen|score|couple|pair)s?"
    r"(?!\w)",
    re.I,
)
_SCALED = re.compile(
    r"(?<![\w.,])([-+]?\d{1,15}(?:,\d{3}){0,4}(?:\.\d{1,15})?)"
    r"(?:\s?((?i:thousand|million|billion|trillion|mio|mn|bn|tn))(?!\w)|\s?([kKMB])(?![\w/])"
    r"|\s?([万萬亿億]))"
)
_CHINESE_DIGITS = {sign: value for value, sign in enumerate("零一二三四五六七八九")} | {"两": 2}
_SAME_NUMERALS = str.maketrans("〇萬億兩", "零万亿两")
_CHINESE = re.compile(
    r"[零一二两三四五六七八九十百千万]{1,12}(?=[个只条张块本人次名辆头匹]|$|[。.，,\s])"
)


def in_digits(text: str) -> str:
    """Write the numbers that stand in words in digits: "a dozen eggs" is "12 eggs"."""
    if abroad := _ABROAD.fullmatch(text):
        return f"{_OTHERS[abroad[1].lower()]}{abroad[2]}"
    if _NONE.fullmatch(text):
        return "0"
    text = re.sub(r"\b([Nn])o one\b", r"\1obody", text)
    text = _SINGLE.sub("1", _NOTHING.sub("0", text))
    text = _IN_GROUPS.sub(_group, _and_a_half(text))
    text = _SCALED.sub(_scaled, text)
    text = _SPELLED.sub(_spelled, text)
    return _CHINESE.sub(lambda match: str(chinese_number(match.group())), text)


def write_in_digits(text: str) -> str:
    """Write 1.2 million and 3k in digits, and leave words as they are."""
    return _SCALED.sub(_scaled, text)


def _and_a_half(text: str) -> str:
    """Write "one and a half million" in digits."""

    def written(match: re.Match) -> str:
        word = match[1].lower()
        if word not in BELOW_TWENTY:
            return match.group()
        return str((2 * BELOW_TWENTY[word] + 1) * _SCALES[match[2].lower()] // 2)

    return _AND_A_HALF.sub(written, text)


def _group(match: re.Match) -> str:
    half, times, group = match.groups()
    if half:
        return str(_GROUPS[group.lower()] // 2)
    count = 1 if times is None else int(times) if times.isdigit() else _word(times)
    return str(count * _GROUPS[group.lower()])


def _word(word: str) -> int:
    lower = word.lower()
    return BELOW_TWENTY[lower] if lower in BELOW_TWENTY else _TENS[lower]


def _scaled(match: re.Match) -> str:
    scale = (match[2] or match[3] or match[4]).lower()
    value = Fraction(match[1].replace(",", "")) * _SCALES[scale]
    if value.denominator == 1:
        return str(value.numerator)
    return repr(float(value))


def _spelled(match: re.Match) -> str:
    if re.fullmatch(r"(?:hundred|thousand|million|billion|trillion)s", match.group(), re.I):
        return match.group()  # hundreds are no number
    words = [
        word.rstrip("s") if word.rstrip("s") in (*_WHOLE, "hundred") else word
        for word in re.split(r"[\s-]+", match.group().lower())
        if word not in ("and", "a", "an")
    ]
    total = 0
    current = 0
    last = 0
    for place, word in enumerate(words):
        if word == "hundred":
            current = (current or 1) * 100
        elif word in _WHOLE:
            total += (current or 1) * _SCALES[word]
            current = 0
        else:
            value = _word(word) if word in BELOW_TWENTY or word in _TENS else 0
            is_joined = (
                current == 0 or current % 100 == 0 or (last in _TENS.values() and value < 10)
            )
            if place and not is_joined:  # "one two three": several numbers
                return match.group()
            current += value
            last = value
            continue
        last = 0
    return str(total + current)


def chinese_number(text: str) -> int:
    """Return the number that Chinese numerals write: 二十一, 三万五千; digit by digit 二〇二四."""
    text = text.translate(_SAME_NUMERALS)
    if len(text) > 2 and not re.search("[十百千万亿]", text):
        return int("".join(str(_CHINESE_DIGITS[sign]) for sign in text))
    total = section = digit = 0
    if short := re.fullmatch(r"(.{0,8}[百千万亿])([一二三四五六七八九])", text):
        unit = {"百": 10, "千": 100, "万": 1000, "亿": 10**7}[short[1][-1]]
        return chinese_number(short[1]) + _CHINESE_DIGITS[short[2]] * unit  # 一百五 is 150
    for sign in text:
        if sign in _CHINESE_DIGITS:
            digit = _CHINESE_DIGITS[sign]
        elif sign in "万亿":
            scale = 10_000 if sign == "万" else 100_000_000
            total = (total + section + digit) * scale
            section = 0
            digit = 0
        else:
            section += (digit or 1) * {"十": 10, "百": 100, "千": 1000}[sign]
            digit = 0
    return total + section + digit
