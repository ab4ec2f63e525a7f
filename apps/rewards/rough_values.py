"""Tell whether a value is only said to be near: about three, ≈ 12, 12 or so, in seven languages.

Where an exact value is the answer, one that is near it is another answer, unless the question asks
for an approximation.
"""

import re

from apps.rewards import number_words

MAX_TEXT_LENGTH = 2_000  # characters from the end of a text that are read
_WORDS = (
    r"about|around|approx(?:imately|\.)?|approximate|roughly|circa|ca\.|some(?:where)?\snear"
    r"|somewhere\s(?:around|about|near)|close\sto|near|nearly|almost|ungefähr|etwa|circa|rund"
    r"|annähernd|näherungsweise|fast|environ|vers|à\speu\sprès|approximativement|presque"
    r"|aproximadamente|alrededor\sde|cerca\sde|unos|unas|casi|примерно|около|приблизительно"
    r"|порядка|почти"
)
_IN_CJK = r"大约|大概|约为|約|约|大致|将近|接近|およそ|だいたい|おおよそ|ほぼ"
_SIGNS = r"[~≈∼≃≅]|\\(?:approx|sim|simeq|cong)(?![a-z])"
_GUESSES = (
    r"maybe|perhaps|possibly|(?:might|could|may)\s(?:well\s)?be|vielleicht|möglicherweise"
    r"|peut-être|quizás?|tal\svez|a\slo\smejor|возможно|может\sбыть"
)
_GUESSES_IN_CJK = r"可能是?|也许是?|或许是?|大概是|たぶん|多分|おそらく|かもしれ"
_NUMBER = r"[-+−]?\s?[$€£¥]?\s?(\d[\d,.]{0,30}(?:\s?/\s?\d{1,9})?)"
_MARKS = r"[\s$*({}_]{0,6}(?:\\[(\[]\s?)?"
_BEFORE = re.compile(
    rf"(?:(?<![^\W_])(?:{_WORDS}|{_GUESSES})\s|(?:{_IN_CJK}|{_GUESSES_IN_CJK})|(?:{_SIGNS}))"
    rf"{_MARKS}{_NUMBER}",
    re.I,
)
_BEHIND = re.compile(
    rf"{_NUMBER}[$*)}}\s]{{0,4}}(?:(?:\\text\s?\{{\s?)?\(?(?:approx|ungefähr|environ)"
    rf"|[-–]ish\b|ish\b|(?:\s?[^\W\d_]{{1,15}})?\s?(?:or\sso\b"
    r"|give\sor\stake|oder\sso\b|más\so\smenos|ou\splus\sou\smoins|или\sоколо\sтого)"
    r"|\s?[个個名位本只]?(?:左右|上下|くらい|ぐらい|ほど|前後|程度))",
    re.I,
)
_ASKED = re.compile(
    r"\b(?:about|around|approximat\w*|approx|roughly|estimat\w*|round(?:ed|ing)?|nearest"
    r"|closest|(?:decimal|significant)\s(?:places?|figures?|digits?)|decimals|ungefähr|etwa"
    r"|näherungs\w*|schätz\w*|geschätzt|rund\w*|gerundet|environ|arrondi\w*|estim\w*|approch\w*"
    r"|aproxim\w*|redonde\w*|примерно|около|приблизительно|округл\w*|оцени\w*)(?![^\W_])"
    r"|≈|\\approx|大约|大概|约为|约(?!数|束|会|定|分|翰|瑟|旦)|近似|估计|估算|四舍五入|精确到|保留"
    r"|およそ|約(?!数|束|分)|だいたい|四捨五入|概算",
    re.I,
)
_EXACT = re.compile(r"[-−]?\d[\d,]{0,30}(?:\s?/\s?\d{1,9})?|[-−]?\\[dt]?frac\s?\{?\d.{0,30}")


def is_exact(reference: str) -> bool:
    """Tell whether a reference is a whole number or a fraction, which no rounding gives."""
    return _EXACT.fullmatch(reference.strip(" $")) is not None


def asks_rough(question: str) -> bool:
    """Tell whether a question wants an approximation."""
    return _ASKED.search(question) is not None


def is_only_near(text: str, answer: str = "") -> bool:
    """Tell whether the last line of a text says of its number that it is only near.

    With an `answer`, this must be its number, and stand nowhere else without such a word.
    """
    line = text[-MAX_TEXT_LENGTH:].strip().rpartition("\n")[2]
    figures = number_words.in_digits(line)
    near = [_digits(match[1]) for form in (_BEFORE, _BEHIND) for match in form.finditer(figures)]
    if not answer or not near:
        return bool(near)
    number = re.search(r"\d[\d,.]*(?:\s?/\s?\d{1,9})?", number_words.in_digits(answer))
    if number is None:
        return False
    digits = _digits(number[0])
    everywhere = [_digits(found) for found in re.findall(_NUMBER, figures)]
    return 0 < near.count(digits) >= everywhere.count(digits)


def _digits(number: str) -> str:
    return re.sub(r"[,\s]", "", number).rstrip(".")
