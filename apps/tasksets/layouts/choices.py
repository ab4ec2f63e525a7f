"""Questions with answers to choose from: MMLU, ARC, CommonsenseQA, GPQA, HellaSwag and others."""

import hashlib
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
    pass_over,
)
from apps.tasksets.layouts.conversations import decoded
from apps.tasksets.layouts.questions import read_meta

ASKED = ("question", "question_stem", "prompt", "query", "problem")
CHOICES = ("choices", "options")
RIGHT = ("answerKey", "answerkey", "answer", "answer_index", "correct", "label", "gold")
LABELLED = re.compile(r"\(?([A-J])[).:]\s*(\S.*)", re.DOTALL)
MOST = len("ABCDEFGHIJ")
# Right and wrong answers in columns of their own.
ASKED_APART = ("Question", "question")
RIGHT_APART = ("Correct Answer", "correct_answer")
WRONG_APART = ("Incorrect Answer {}", "incorrect_answer_{}", "distractor{}", "wrong_answer_{}")
WRONG_LISTS = ("incorrect_answers", "distractors", "wrong_answers")
ENDINGS = "Which ending continues the text?"


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
    subject = row.get("subject") or row.get("category")
    meta = {"subject": subject} if isinstance(subject, str) and subject else {}
    texts = {letters[name]: text.strip() for name, text in choices.items()}
    return _lettered(asked, texts, letters[right], meta)


def _lettered(asked: str, texts: dict[str, str], right: str, meta: Row) -> Row:
    """Return the task that shows these texts by their letters and asks for the right letter."""
    listed = "\n".join(f"{letter}. {text}" for letter, text in texts.items())
    answer = {"value": right, "choices": texts}
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


# -- right and wrong answers in columns of their own -----------------------------------------------


def _is_apart(row: Row) -> bool:
    return bool(
        first_text(row, ASKED_APART) and first_text(row, RIGHT_APART) and _wrong_columns(row)
    )


def _wrong_columns(row: Row) -> list[str]:
    """Return the columns of wrong answers: the numbered ones, or one that holds a list."""
    for name in WRONG_APART:
        numbered = [name.format(number) for number in range(1, MOST)]
        if found := [one for one in numbered if row.get(one) is not None]:
            return found
    name = first_text(row, WRONG_LISTS)
    return [name] if name else []


def _apart(row: Row, taking: RowReading) -> Row:
    """Mix the right answer among the wrong ones, in an order that the texts decide.

    The same row gives the same order in every import.
    """
    name = first_text(row, RIGHT_APART)
    right = row[name]
    columns = _wrong_columns(row)
    wrong = decoded(row[columns[0]]) if columns[0] in WRONG_LISTS else [row[one] for one in columns]
    if not is_texts([right]) or not is_texts(wrong) or len(wrong) >= MOST:
        raise NotThisLayout(f"{name}, {columns[0]}: must be texts, at most {MOST} in all")
    asked = row[first_text(row, ASKED_APART)]
    texts = [text.strip() for text in (right, *wrong)]
    if not isinstance(asked, str) or not asked.strip() or not all(texts):
        raise NotThisLayout("question and answers: must be text that is not empty")
    if len(set(texts)) < len(texts):
        raise NotThisLayout(f"{columns[0]}: two of the answers are the same")
    texts.sort(key=lambda text: hashlib.sha256(f"{asked}\0{text}".encode()).digest())
    lettered = dict(zip(string.ascii_uppercase, texts, strict=False))
    letter = next(one for one, text in lettered.items() if text == right.strip())
    meta = read_meta(row, "Record ID", "High-level domain", "Subdomain", "category", "difficulty")
    return _lettered(asked, lettered, letter, meta)


# -- endings ---------------------------------------------------------------------------------------


def _is_endings(row: Row) -> bool:
    return isinstance(row.get("ctx"), str) and bool(_choices(row.get("endings")))


def _ending(row: Row, taking: RowReading) -> Row:
    """Ask which of the endings continues `ctx`, which `ctx_a` and `ctx_b` repeat in two parts."""
    pass_over(row, "ctx_a", "ctx_b")
    choices = _choices(row["endings"])
    right = _right(row, choices)
    activity = row.get("activity_label")
    begun = row["ctx"].strip()
    if not begun:
        raise NotThisLayout("ctx: must be text that is not empty")
    named = f"{activity.strip()}: {begun}" if isinstance(activity, str) and activity else begun
    texts = {letter: text.strip() for letter, text in choices.items()}
    meta = read_meta(row, "ind", "source_id", "split_type")
    return _lettered(f"{ENDINGS}\n\n{named}", texts, right, meta)


LAYOUTS = (
    Layout(
        "answers-apart",
        "the right and the wrong answers in columns of their own (GPQA, SciQ, OpenTDB)",
        _is_apart,
        {TASKS: _apart},
    ),
    Layout(
        "endings",
        "HellaSwag: ctx, endings and label",
        _is_endings,
        {TASKS: _ending},
    ),
    Layout(
        "choices",
        "questions with choices (MMLU, ARC, CommonsenseQA, AQuA)",
        _is_choice,
        {TASKS: _choice},
    ),
)
