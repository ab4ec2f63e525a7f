"""Questions with answers to choose from: MMLU, ARC, CommonsenseQA, AQuA and others."""

import re
import string
from typing import Any

from apps.tasksets.layouts.contract import (
    TASKS,
    Layout,
    NotThisLayout,
    Row,
    RowReading,
    first_text,
    is_objects,
    is_texts,
    parse_number,
)
from apps.tasksets.layouts.conversations import decoded

ASKED = ("question", "question_stem", "prompt", "query", "problem")
CHOICES = ("choices", "options")
RIGHT = ("answerKey", "answerkey", "answer", "answer_index", "correct", "label", "gold")
LABELLED = re.compile(r"\(?([A-J])[).:]\s*(\S.*)", re.DOTALL)
MOST = len("ABCDEFGHIJ")


def _is_choice(row: Row) -> bool:
    name = first_text(row, CHOICES)
    is_asked = any(isinstance(row.get(one), str | dict) for one in ASKED)
    return bool(name and is_asked and first_text(row, RIGHT) and _choices(row[name]))


def _choices(value: object) -> dict[str, str]:
    """Return the texts to choose from by their letters; {} where the value has none."""
    value = decoded(value)
    if isinstance(value, dict) and is_texts(value.get("text")) and is_texts(value.get("label")):
        named = dict(zip(value["label"], value["text"], strict=False))
    elif isinstance(value, dict):
        named = value
    elif is_objects(value) and all("label" in one and "text" in one for one in value):
        named = {one["label"]: one["text"] for one in value}
    elif is_texts(value):
        found = [one for text in value if (one := LABELLED.fullmatch(text.strip()))]
        texts = [one[2] for one in found] if len(found) == len(value) else value
        named = dict(zip(string.ascii_uppercase, texts, strict=False))
    else:
        return {}
    is_told = all(isinstance(text, str) and text.strip() for text in named.values())
    return named if 2 <= len(named) <= MOST and is_told else {}


def _choice(row: Row, taking: RowReading) -> Row:
    choices = _choices(row[first_text(row, CHOICES)])
    letters = dict(zip(choices, string.ascii_uppercase, strict=False))  # of labels such as 1, 2, 3
    right = _right(row, choices)
    asked = row[first_text(row, ASKED)]
    if isinstance(asked, dict):
        asked = asked.get("stem") or asked.get("text")
    if not isinstance(asked, str) or not asked.strip():
        raise NotThisLayout("question: must be text that is not empty")
    listed = "\n".join(f"{letters[name]}. {text.strip()}" for name, text in choices.items())
    answer = {
        "value": letters[right],
        "choices": {letters[name]: text.strip() for name, text in choices.items()},
    }
    subject = row.get("subject") or row.get("category")
    meta = {"subject": subject} if isinstance(subject, str) and subject else {}
    return {"prompt": f"{asked.strip()}\n\n{listed}", "answer": answer, "meta": meta}


def _right(row: Row, choices: dict[str, Any]) -> str:
    """Return the label of the right choice: said as a label, as a number from 0, or as its text."""
    name = first_text(row, RIGHT)
    said = row[name]
    labels = list(choices)
    if isinstance(said, str) and said.strip() in choices:
        return said.strip()
    number = parse_number(said)
    if number is not None and number == int(number) and 0 <= number < len(labels):
        return labels[int(number)]
    if isinstance(said, str):
        label = re.fullmatch(r"\(?([A-Ja-j])[).]?", said.strip())
        if label and label[1].upper() in choices:
            return label[1].upper()
        same = [one for one, text in choices.items() if text.strip() == said.strip()]
        if len(same) == 1:
            return same[0]
    raise NotThisLayout(
        f"{name}: must be the label, the number from 0 or the text of one of the "
        f"{len(labels)} choices"
    )


LAYOUTS = (
    Layout(
        "choices",
        "questions with choices (MMLU, ARC, CommonsenseQA, AQuA)",
        _is_choice,
        {TASKS: _choice},
    ),
)
