"""The number that an answer in words gives, in digits or spelt out."""

import re

from apps.rewards.final_answer import NoAnswer, final_answer, only

NUMBER = re.compile(r"(?<![\w.,])[+-]?(?:[0-9]{1,3}(?:,[0-9]{3}){1,5}|[0-9]{1,18})?(?:\.[0-9]{1,18})?(?![\w]|[.,][0-9])", re.ASCII)
WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
)  # fmt: skip
WORD = re.compile(rf"\b({'|'.join(WORDS)})\b", re.IGNORECASE)


def number(response: str, words: bool = False) -> float:
    """The one number of the final answer, wherever that is marked; `words` lets "three" be one. Raises NoAnswer."""
    final = final_answer(response.replace("−", "-"))
    if final is None:
        raise NoAnswer("no answer of the kind that was asked for")
    return only([only(_numbers(text, words)) for text in (final.text, *final.others)])


def _numbers(text: str, words: bool) -> list[float]:
    found = [float(digits.replace(",", "")) for digits in NUMBER.findall(text) if digits.strip("+-.,")]
    return found + [float(WORDS.index(word.lower())) for word in WORD.findall(text)] if words else found
