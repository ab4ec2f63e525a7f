"""What a task says the answer is."""

import re
from collections.abc import Mapping
from typing import Any

from apps.rewards.final_answer import boxes, hashes

NAMES = ("value", "answer", "expected", "solution", "ground_truth")


def references(answer: Mapping[str, Any]) -> list[str]:
    """The right answers as texts, from the first of `NAMES` that is there; any of a list is enough. Empty where none.

    A worked solution counts by what it marks: its last box, or what follows ####.
    """
    said = next((answer[name] for name in NAMES if answer.get(name) is not None), None)
    found = said if isinstance(said, list) else [said]
    return [_marked(text) for each in found if (text := _text(each))]


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return value.strip() if isinstance(value, str) else repr(value)


def _marked(text: str) -> str:
    return (boxes(text) or hashes(text) or [re.sub(r"^\$+|\$+$", "", text) or text])[-1]
