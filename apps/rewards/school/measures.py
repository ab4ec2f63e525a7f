"""Compare short answers that are an amount with its unit: 12 km, $5, 50 %."""

import re

from apps.rewards import number_words
from apps.rewards.altered_numbers import is_altered
from apps.rewards.final_answer import final_answer
from apps.rewards.mathematics import units
from apps.rewards.mathematics.same import Rules, read_all_meanings, same
from apps.rewards.mathematics.shapes import Value

MAX_MEASURE_LENGTH = 300
_AMOUNT = re.compile(
    r"(?P<sign>[$€£¥₹]\s?)?-?\d[\d,.]{0,20}\s?"
    r"(?P<unit>%|°\s?[CF]?|[€£¥₹$]|[A-Za-zµμ°Ω/²³^·\d ]{1,30})?"
)
_NOT = re.compile(r"\b(?:not|never|no|or|nicht|pas|ou|oder|maybe|perhaps)\b|n['’]t\b|\?", re.I)
_DOLLARS = re.compile(r"\b(?:USD|US\$)\s?(?=\d)")
_RULES = Rules(percent=False, units=False)


def is_amount(reference: str) -> bool:
    """Tell whether the reference is a number with a unit, a currency or a percent sign."""
    return len(reference) < MAX_MEASURE_LENGTH and _read(reference) is not None


def _read(text: str) -> Value | None:
    text = text.strip(" .!*")
    match = _AMOUNT.fullmatch(text)
    if match is None or not (match["sign"] or match["unit"]):
        return None
    first, *_ = read_all_meanings(text)
    if not isinstance(first, Value):
        return None
    is_measured = first.is_percent or (bool(first.unit) and units.is_known_unit(first.unit))
    return first if is_measured else None


def is_same_amount(text: str, reference: str) -> bool:
    """Tell whether the text says the amount of the reference, in its unit or another one."""
    expected = _read(reference)
    if expected is None or len(text) > MAX_MEASURE_LENGTH or _NOT.search(text):
        return False
    final = final_answer(_DOLLARS.sub("$", number_words.in_digits(text)))
    if final is None or final.others or _is_altered(text, final.text):
        return False
    first, *_ = read_all_meanings(final.text)
    if not isinstance(first, Value) or bool(first.unit) != bool(expected.unit):
        return False
    return first.is_percent == expected.is_percent and same(expected, first, _RULES)


def _is_altered(text: str, amount: str) -> bool:
    place = text.rfind(amount)
    return place >= 0 and is_altered(text[:place], text[place + len(amount) :])
