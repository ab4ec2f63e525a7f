r"""Which part of a reply is its answer: what stands in the last <answer> … </answer> or \boxed{…}, else its last line.

A reply that gives several different answers has given none: otherwise to say everything would be the best answer.
Everything here is linear in what is read, and no more than the reply's end is read.
"""

import re
from typing import TypeVar

T = TypeVar("T")
READ = 4_000  # characters of a reply's end
MARKED = (re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE), re.compile(r"\\boxed\{([^{}]*)\}"))
NUMBER = re.compile(r"(?<![\w.,])[+-]?(?:[0-9]{1,3}(?:,[0-9]{3}){1,5}|[0-9]{1,18})?(?:\.[0-9]{1,18})?(?![\w]|[.,][0-9])", re.ASCII)
WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
)  # fmt: skip
WORD = re.compile(rf"\b({'|'.join(WORDS)})\b", re.IGNORECASE)


class NoAnswer(ValueError):
    """The reply gives no answer, or several; the message says which."""


def final(text: str) -> str:
    """The answer's own words. Raises NoAnswer."""
    end = text[-READ:].replace("−", "-")
    for mark in MARKED:
        said = [found.strip() for found in mark.findall(end)]
        if said:
            return _only(said)
    return next((line.strip() for line in reversed(end.splitlines()) if line.strip()), "")


def number(text: str, words: bool = False) -> float:
    """The one number of the answer; `words` lets "three" be one. Raises NoAnswer."""
    said = final(text)
    found = [float(digits.replace(",", "")) for digits in NUMBER.findall(said) if digits.strip("+-.,")]
    if words:
        found += [float(WORDS.index(word.lower())) for word in WORD.findall(said)]
    return _only(found)


def _only(said: list[T]) -> T:
    if not said:
        raise NoAnswer("no answer of the kind that was asked for")
    if any(one != said[0] for one in said):
        raise NoAnswer("several different answers")
    return said[0]
