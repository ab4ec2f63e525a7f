"""Read what a task says the answer is."""

import re
from collections.abc import Mapping
from typing import Any

from apps.accounts import strict_json
from apps.rewards.final_answer import boxes, hashes, last_line
from apps.rewards.mathematics import units

NAMES = ("value", "answer", "expected", "solution", "ground_truth")
MIN_WORDS = 5  # of a worked solution
MAX_STATED_LENGTH = 60  # characters of what a solution states at its end
_WORD = re.compile(r"(?<![\\A-Za-z])[^\W\d_]{2,}")
_SENTENCES = re.compile(r"[.!?]\s|\n|[。！？]")
_CONCLUDES = re.compile(r"\b(?:so|therefore|thus|hence)\b[^.]{1,200}\.$", re.I)
_VALUE = re.compile(r"[-+$€£\\(\d]|[A-Za-z]\s?=")
MAX_TEXT_AROUND_BOXES = 60  # characters around several boxes that are one answer


def references(answer: Mapping[str, Any]) -> list[str]:
    """List the right answers as texts, from the first of `NAMES` that has a value.

    Each item of a list is a right answer. Of a worked solution, the answer is what it marks: its
    last box, or the text after ####; else what its last sentence states.
    """
    value = next((answer[name] for name in NAMES if answer.get(name) is not None), None)
    items = _listed(value)
    unit = _unit(answer.get("unit"))
    return [_marked(text) + unit for item in items if (text := _text(item))]


def _unit(value: Any) -> str:
    """Return the unit that stands beside the value, where it is one that is known."""
    return f" {value.strip()}" if isinstance(value, str) and units.is_known_unit(value) else ""


def _listed(value: Any) -> list[Any]:
    """Return a list of right answers, also one that stands as JSON in a text: ["4"]."""
    if isinstance(value, str) and re.match(r"\s*\[\s*\"", value):
        try:
            value = strict_json.decode_json(value)
        except strict_json.NotStrictJson:
            return [value]
    return value if isinstance(value, list) else [value]


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return value.strip() if isinstance(value, str) else repr(value)


def _marked(text: str) -> str:
    boxed = boxes(text)
    if len(boxed) > 1 and len(text) - sum(map(len, boxed)) < MAX_TEXT_AROUND_BOXES + 8 * len(boxed):
        return ", ".join(boxed)
    if marked := boxed or hashes(text):
        return marked[-1]
    if is_solution(text) and (stated := _stated(text)):
        return stated
    return re.sub(r"^\$+|\$+$", "", text) if text.count("$") != 1 else text


def is_solution(text: str) -> bool:
    """Tell whether a right answer is a text of several sentences, and no answer by itself."""
    is_long = len(_WORD.findall(text[: 10 * MAX_STATED_LENGTH])) >= MIN_WORDS
    ends = text.strip()
    return is_long and bool(_SENTENCES.search(ends[:-1]) or _CONCLUDES.search(ends))


def _stated(text: str) -> str:
    """Return the one value that the end of a solution states; "" where that is not clear."""
    final = last_line(text)
    if final is None or final.others or len(final.text) > MAX_STATED_LENGTH:
        return ""
    is_value = _VALUE.match(final.text) and len(_WORD.findall(final.text)) < 4
    return final.text if is_value else ""
