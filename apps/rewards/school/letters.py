"""Multiple choice: which letters are right, and which were picked."""

import re
from collections.abc import Mapping
from typing import Any

from apps.rewards.final_answer import LINE, after_thinking, final_answer

NAMES = ("value", "correct", "answer", "letters")
LONGEST = 600  # characters of a final answer
# Possessive: blanks between two letters could be shared out in several ways, which multiply.
_GAP = r"\s*+(?:[).]\s*+)?+(?:(?:[,;&/+]|\band\b|\bor\b)\s*+|(?<=\s))"
_LIST = re.compile(rf"\(?\s*+[A-Z](?:{_GAP}\(?\s*+[A-Z])*+\s*+[).]?")
_LOWER = re.compile(r"\s++[a-z]")
_TOGETHER = re.compile(r"[A-H]{2,8}")
_LABEL = re.compile(r"(?<![A-Za-z])\(?([A-Z])(?:\)|[.:](?=\s|$))")
_NAMED = re.compile(r"(?:option|choice|answer|letter)s?\b\s*+(?:is|are|:)?\s*+\(?([A-Z])\b(?!')", re.I)
_ALONE = re.compile(r"(?<![A-Za-z'’])([A-Z])(?![A-Za-z'’])")


def asked(answer: Mapping[str, Any]) -> frozenset[str]:
    """The right letters, from the first of `NAMES` that is there; empty where the task has none."""
    said = next((answer[name] for name in NAMES if answer.get(name)), None)
    found = said if isinstance(said, list) else [said]
    if not all(isinstance(each, str) for each in found):
        return frozenset()
    letters = [letter for each in found for letter in _listed(each.strip().upper())]
    return frozenset(letters)


def _listed(text: str) -> list[str]:
    if _TOGETHER.fullmatch(text):
        return list(text)
    return re.findall(r"[A-Z](?![A-Z])", text) if _LIST.fullmatch(text) else []


def picked(response: str, choices: Any = None, several: bool = False) -> frozenset[str]:
    """The letters of the final answer; all that it names, so that naming all of them is no pick. Empty where it names none."""
    final = final_answer(response)
    if final is None:
        return frozenset()
    found = [_read(text, choices, several) for text in (final.text, *final.others)]
    if final.by == LINE and not any(found):
        found = [_read(after_thinking(response)[-LONGEST:].strip().splitlines()[-1], choices, several)]
    return frozenset().union(*found)


def _read(text: str, choices: Any, several: bool) -> frozenset[str]:
    text = (
        re.sub(r"\\(?:text|textbf|mathrm|mathbf|mbox)\s*\{([^{}]*)\}", r"\1", text[:LONGEST]).replace("**", "").strip().strip("$. ")
    )
    if re.fullmatch(r"\(?[a-z]\)?", text) or (several and _LIST.fullmatch(text.upper()) and len(text) < 30):
        text = text.upper()
    if several and _TOGETHER.fullmatch(text):
        return frozenset(text)
    if _LIST.fullmatch(text):
        return frozenset(re.findall(r"[A-Z]", text))
    for pattern in (_LABEL, _NAMED):
        if found := pattern.findall(text):
            return frozenset(letter.upper() for letter in found)
    return _by_words(text, choices) or frozenset(_without_articles(text))


def _by_words(text: str, choices: Any) -> frozenset[str]:
    """The choice whose words were said instead of its letter."""
    if isinstance(choices, list):
        choices = {chr(65 + place): choice for place, choice in enumerate(choices[:26])}
    if not isinstance(choices, dict):
        return frozenset()
    return frozenset(str(letter).upper() for letter, choice in choices.items() if str(choice).strip().casefold() == text.casefold())


def _without_articles(text: str) -> list[str]:
    """Letters that stand alone; "A" before a word and "I" are words themselves."""
    found = list(_ALONE.finditer(text))
    return [each[1] for each in found if each[1] != "I" and not (each[1] == "A" and _LOWER.match(text, each.end()))]
