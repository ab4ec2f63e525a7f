"""Read the number that an answer in words gives, in digits or spelt out."""

import re
from dataclasses import dataclass, field
from decimal import Decimal

from apps.rewards import number_words, spelled_values
from apps.rewards.altered_numbers import is_altered, is_bound
from apps.rewards.final_answer import NoAnswer, final_answer, only
from apps.rewards.unmarked_answers import is_denied

NUMBER = re.compile(
    r"(?<![\w.,])[+-]?(?:[0-9]{1,3}(?:,[0-9]{3}){1,5}|[0-9]{1,18})?(?:\.[0-9]{1,18})?"
    r"(?![\w]|[.,][0-9])",
    re.ASCII,
)
MAX_ANSWER_LENGTH = 4_000  # characters of an answer in which numbers are looked for
_FRACTION = re.compile(
    r"\\[dt]?frac\{(\d{1,9})\}\{([1-9]\d{0,8})\}"
    r"|(?<![\w./,])(\d{1,9})\s?/\s?([1-9]\d{0,8})(?![\w./,]\d)(?!\w)"
)
_GROUPED = re.compile(r"(?<![\w.,])\d{1,3}(?:[ \u00a0\u202f]\d{3}){2,4}(?![\w.,]?\d)")
_GROUP_ALONE = re.compile(r"\s*[$€£]?\d{1,3}[ \u00a0\u202f]\d{3}\s*")
_APOSTROPHES = re.compile(r"(?<![\w.,])\d{1,3}(?:['’]\d{3}){1,4}(?![\w.,'’]?\d)")
# 12,5 is a decimal, 1,234 is not; 12 1/2 is one number.
_DECIMAL_COMMA = re.compile(r"(?<![\w.,])(-?\d{1,9}),(\d{1,2})(?![\w.,])")
_MIXED = re.compile(r"(?<![\w.,/])(\d{1,9})\s(\d{1,4})/([1-9]\d{0,3})(?![\w.,/])")
# 1.2e6, and 1.2 × 10^6
_SCIENTIFIC = re.compile(
    r"(?<![\w.,])([-+]?\d{1,15}(?:\.\d{1,15})?)"
    r"(?:[eE]|\s?(?:[x×*·]|\\times|\\cdot)\s?10\^\{?)([-+]?\d{1,2})\}?(?![\w.,]?\d)(?!\w)"
)
# A calculation before its result, and a number that sums up those before it.
_CALCULATION = re.compile(r"\A[^\w=]{0,5}\d[-+*/×÷()\d\s.,$]{0,100}=(?=[^=]{1,60}$)")
_IN_TOTAL = re.compile(r"(?:\s\w{1,30}){0,2}\s(?:in total|altogether|in all|total|overall)\b", re.I)
_TEXT = re.compile(r"\\text\s?\{([^{}]*)\}")
# Digits of full width, and of Arabic, Persian, Hindi, Bengali and Thai, by their zeros.
_ZEROS = "０٠۰०০๐"
_DIGITS = str.maketrans("．，－％−٫٬", ".,-%-.,") | {
    ord(zero) + digit: str(digit) for zero in _ZEROS for digit in range(10)
}


@dataclass(frozen=True)
class Number:
    """Number as it is written; `is_percent`: % or the word follows it;
    `is_total`: it sums up those before it.
    """

    value: float
    is_percent: bool = False
    is_total: bool = field(default=False, compare=False)


def find_final_number(response: str, words: bool = False) -> Number:
    """Return the one number of the final answer, wherever that is marked.

    `words` lets "three" and "a dozen" be one; "1.2 million" always is. Raises NoAnswer.
    """
    final = final_answer(response if response.isascii() else response.translate(_DIGITS))
    if final is None:
        raise NoAnswer("no answer of the expected kind")
    return only([only(_answer_numbers(text, words)) for text in (final.text, *final.others)])


def _answer_numbers(text: str, words: bool) -> list[Number]:
    """Return the numbers of an answer; only the total if the answer ends with it."""
    numbers = _numbers(text, words)
    totals = [number for number in numbers if number.is_total]
    return totals if len(totals) == 1 and numbers[-1] == totals[0] else numbers


def _numbers(text: str, words: bool) -> list[Number]:
    text = text[:MAX_ANSWER_LENGTH].replace("\\%", "%").replace("\\!", "").replace("{,}", ",")
    text = _APOSTROPHES.sub(_join_digits, _GROUPED.sub(_join_digits, _CALCULATION.sub("", text)))
    text = _join_digits(text_alone) if (text_alone := _GROUP_ALONE.fullmatch(text)) else text
    text = _SCIENTIFIC.sub(_powers, _DECIMAL_COMMA.sub(r"\1.\2", text))
    text = _MIXED.sub(_mixed, text)
    if words and (figures := spelled_values.in_figures(_TEXT.sub(r"\1", text))):
        text = figures  # two thirds is neither 2 nor 3
    text = number_words.in_digits(text) if words else number_words.write_in_digits(text)
    text = _FRACTION.sub(_quotient, text)
    numbers = []
    for match in NUMBER.finditer(text):
        digits = match.group().replace(",", "")
        before, behind = text[: match.start()], text[match.end() :]
        if is_denied(before):
            return []
        if is_bound(before):  # more than 12 is another number
            continue
        if is_altered(before, behind, digits):  # so is half of 12
            return []
        if digits.strip("+-."):
            behind = text[match.end() : match.end() + 10].lstrip().lower()
            is_percent = behind.startswith(("%", "percent", "per cent"))
            is_total = _IN_TOTAL.match(text, match.end()) is not None
            numbers.append(Number(float(digits), is_percent, is_total))
    return numbers


def _join_digits(match: re.Match) -> str:
    return re.sub(r"[\s'’]", "", match.group())


def _powers(match: re.Match) -> str:
    return format(Decimal(f"{match[1]}e{match[2]}"), "f")


def _mixed(match: re.Match) -> str:
    """Write 12 1/2 as a decimal, where a proper fraction follows."""
    whole, top, bottom = map(int, match.groups())
    return repr(whole + top / bottom) if top < bottom else match.group()


def _quotient(match: re.Match) -> str:
    """Write a fraction, as \\frac{1}{2} or 1/2, as a decimal."""
    top, bottom = (int(match[1] or match[3]), int(match[2] or match[4]))
    return repr(top / bottom)
