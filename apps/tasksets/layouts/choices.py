"""Questions with answers to choose from: MMLU, ARC, CommonsenseQA, GPQA, HellaSwag and others."""

import hashlib
import re
import string
from dataclasses import dataclass
from typing import Any

from apps.tasksets.layouts.answers import GIVEN, with_given
from apps.tasksets.layouts.contract import (
    TASKS,
    Layout,
    NotThisLayout,
    Row,
    RowReading,
    first_text,
    is_objects,
    is_texts,
    is_whole,
    parse_number,
    pass_over,
)
from apps.tasksets.layouts.conversations import decoded
from apps.tasksets.layouts.questions import read_meta

ASKED = ("question", "question_stem", "prompt", "query", "problem", "Problem")
CHOICES = ("choices", "options", "answers")
SHOWN = (*GIVEN, "article", "puzzle", "narrative", "story")  # texts that a question is about
RIGHT = (
    "answerKey",
    "answerkey",
    "answer",
    "answer_index",
    "answer_idx",
    "correct",
    "correct_option",
    "correct_answer",
    "label",
    "gold",
)
ROW_OF_CHOICES = re.compile(r"(?:^|,)\s{0,3}([a-j]) \) ")  # MathQA: "a ) 38 , b ) 27 , c ) 30"
LABELLED = re.compile(r"\(?([A-J])[).:]\s*(\S.*)", re.DOTALL)
MAX_CHOICES = len("ABCDEFGHIJ")
# Right and wrong answers in columns of their own.
ASKED_APART = ("Question", "question")
RIGHT_APART = ("Correct Answer", "correct_answer", "best_answer")
WRONG_APART = ("Incorrect Answer {}", "incorrect_answer_{}", "distractor{}", "wrong_answer_{}")
WRONG_LISTS = ("incorrect_answers", "distractors", "wrong_answers")
ENDINGS = "Which ending continues the text?"


def _is_choice(row: Row) -> bool:
    name = first_text(row, CHOICES)
    if name == "answers" and not is_whole(row.get("label")):  # several right answers
        return False
    is_asked = any(isinstance(row.get(column), str | dict) for column in ASKED)
    return bool(is_asked and first_text(row, RIGHT) and _choices(_list_choices(row)))


def _list_choices(row: Row) -> object:
    """Return the choices beside the question, or those in it (ARC's own files)."""
    if name := first_text(row, CHOICES):
        return row[name]
    question = row.get("question")
    return question.get("choices") if isinstance(question, dict) else None


def _choices(value: object) -> dict[str, str]:
    """Return the texts to choose from by their letters; {} where the value has none."""
    value = decoded(value)
    if isinstance(value, dict) and is_texts(value.get("text")) and is_texts(value.get("label")):
        choices = dict(zip(value["label"], value["text"], strict=False))
    elif isinstance(value, dict):
        choices = value
    elif is_objects(value) and all("label" in choice and "text" in choice for choice in value):
        choices = {str(choice["label"]): choice["text"] for choice in value}
    elif is_texts(value):
        matches = [match for text in value if (match := LABELLED.fullmatch(text.strip()))]
        texts = [match[2] for match in matches] if len(matches) == len(value) else value
        choices = dict(zip(string.ascii_uppercase, texts, strict=False))
    elif isinstance(value, str):
        _, *parts = ROW_OF_CHOICES.split(value)
        texts = [text.strip() for text in parts[1::2]]
        choices = dict(zip(parts[::2], texts, strict=True))
    else:
        return {}
    all_have_text = all(isinstance(text, str) and text.strip() for text in choices.values())
    return choices if 2 <= len(choices) <= MAX_CHOICES and all_have_text else {}


def _choice(row: Row, taking: RowReading) -> Row:
    choices = _choices(_list_choices(row))
    letters = dict(zip(choices, string.ascii_uppercase, strict=False))  # of labels such as 1, 2, 3
    right = _right(row, choices)
    question = row[first_text(row, ASKED)]
    if isinstance(question, dict):
        question = question.get("stem") or question.get("text")
    if not isinstance(question, str) or not question.strip():
        raise NotThisLayout("question: must be text that is not empty")
    question = with_given(question.strip(), row, SHOWN)
    subject = row.get("subject") or row.get("category")
    meta = {"subject": subject} if isinstance(subject, str) and subject else {}
    texts = {letters[name]: text.strip() for name, text in choices.items()}
    return lettered_task(question, texts, letters[right], meta)


def lettered_task(question: str, texts: dict[str, str], right: str, meta: Row) -> Row:
    """Return the task that shows these texts by their letters and asks for the right letter."""
    listing = "\n".join(f"{letter}. {text}" for letter, text in texts.items())
    answer = {"value": right, "choices": texts}
    return {"prompt": f"{question.strip()}\n\n{listing}", "answer": answer, "meta": meta}


def _right(row: Row, choices: dict[str, Any]) -> str:
    """Return the label of the right choice, given as a label, an index from 0 or its text."""
    name = first_text(row, RIGHT)
    if not name:
        raise NotThisLayout(f"the right choice is missing; use one of {', '.join(RIGHT)}")
    value = row[name]
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    labels = list(choices)
    if type(value) in (str, int) and str(value).strip() in choices:
        return str(value).strip()
    number = parse_number(value)
    if number is not None and number == int(number) and 0 <= number < len(labels):
        return labels[int(number)]
    if isinstance(value, str):
        label = re.fullmatch(r"\(?([A-Ja-j])[).]?", value.strip())
        if label and label[1].upper() in choices:
            return label[1].upper()
        matching_labels = [
            choice_label for choice_label, text in choices.items() if text.strip() == value.strip()
        ]
        if len(matching_labels) == 1:
            return matching_labels[0]
    raise NotThisLayout(
        f"{name}: must be the label, the number from 0 or the text of one of the "
        f"{len(labels)} choices"
    )


def _is_quality(row: Row) -> bool:
    """Tell whether the row is of QuALITY's own files, also with all questions of a text in one."""
    questions = row.get("questions")
    is_nested = is_objects(questions) and "gold_label" in questions[0]
    is_plain = isinstance(row.get("question"), str) and is_whole(row.get("gold_label"))
    is_asked = is_nested or (is_plain and is_texts(decoded(row.get("options"))))
    return isinstance(row.get("article"), str) and is_asked


def _quality(row: Row, taking: RowReading) -> Row:
    """Read a question whose right option is counted from 1."""
    if row.get("question") is None:
        raise NotThisLayout(
            "questions: has several questions about one text; write a row for each, with article, "
            "question, options and gold_label"
        )
    options = decoded(row["options"])
    number = parse_number(row["gold_label"])
    assert is_texts(options) and number is not None  # by `_is_quality`
    if not 1 <= number <= len(options) <= MAX_CHOICES:
        raise NotThisLayout(f"gold_label: must be a number from 1 to {len(options)}")
    texts = dict(zip(string.ascii_uppercase, map(str.strip, options), strict=False))
    question = with_given(row["question"].strip(), row, SHOWN)
    meta = read_meta(row, "question_unique_id", "article_id", "difficult")
    return lettered_task(question, texts, list(texts)[int(number) - 1], meta)


# -- right and wrong answers in columns of their own -----------------------------------------------


def _has_wrong_answers(row: Row) -> bool:
    return bool(
        first_text(row, ASKED_APART) and first_text(row, RIGHT_APART) and _wrong_columns(row)
    )


def _wrong_columns(row: Row) -> list[str]:
    """Return the columns of wrong answers: the numbered ones, or one that holds a list."""
    for name in WRONG_APART:
        numbered = [name.format(number) for number in range(1, MAX_CHOICES)]
        if present := [column for column in numbered if row.get(column) is not None]:
            return present
    name = first_text(row, WRONG_LISTS)
    return [name] if name else []


def _mixed_choice(row: Row, taking: RowReading) -> Row:
    """Mix the right answer among the wrong ones, in an order that the texts decide.

    The same row gives the same order in every import.
    """
    name = first_text(row, RIGHT_APART)
    right = row[name]
    columns = _wrong_columns(row)
    wrong = (
        decoded(row[columns[0]])
        if columns[0] in WRONG_LISTS
        else [row[column] for column in columns]
    )
    if not is_texts([right]) or not is_texts(wrong):
        raise NotThisLayout(f"{name}, {columns[0]}: must be texts")
    if len(wrong) >= MAX_CHOICES:
        taking.dropped.add(f"{columns[0]} beyond {MAX_CHOICES - 1}")
        wrong = wrong[: MAX_CHOICES - 1]
    question = row[first_text(row, ASKED_APART)]
    meta = read_meta(row, "Record ID", "High-level domain", "Subdomain", "category", "difficulty")
    return _mixed(question, right, wrong, columns[0], meta)


def _mixed(question: object, right: str, wrong: list[str], column: str, meta: Row) -> Row:
    texts = [text.strip() for text in (right, *wrong)]
    if not isinstance(question, str) or not question.strip() or not all(texts):
        raise NotThisLayout("question and answers: must be text that is not empty")
    if len(set(texts)) < len(texts):
        raise NotThisLayout(f"{column}: two of the answers are the same")
    texts.sort(key=lambda text: hashlib.sha256(f"{question}\0{text}".encode()).digest())
    lettered = dict(zip(string.ascii_uppercase, texts, strict=False))
    letter = next(label for label, text in lettered.items() if text == right.strip())
    return lettered_task(question, lettered, letter, meta)


def _is_truthful(row: Row) -> bool:
    return isinstance(row.get("question"), str) and isinstance(_targets(row), dict)


def _targets(row: Row) -> object:
    return decoded(row.get("mc1_targets"))


def _truthful(row: Row, taking: RowReading) -> Row:
    """Mix the choices, of which the file always has the right one first."""
    targets = _targets(row)
    assert isinstance(targets, dict)  # by `_is_truthful`
    texts = targets.get("choices")
    labels = targets.get("labels")
    if not is_texts(texts) or not isinstance(labels, list) or len(labels) != len(texts):
        raise NotThisLayout("mc1_targets: must have choices, and a label for each of them")
    if labels.count(1) != 1 or len(texts) < 2:
        raise NotThisLayout("mc1_targets: must have one choice with the label 1, and others")
    right = texts[labels.index(1)]
    wrong = [text for text, label in zip(texts, labels, strict=True) if label != 1]
    if len(wrong) >= MAX_CHOICES:
        taking.dropped.add(f"mc1_targets.choices beyond {MAX_CHOICES}")
    return _mixed(row["question"], right, wrong[: MAX_CHOICES - 1], "mc1_targets", {})


# -- choices in columns of their own ---------------------------------------------------------------


@dataclass(frozen=True)
class Columns:
    """Columns of a data set that has each choice in one: `first` is the number of the first.

    `first` is None where the right one is named by its letter.
    """

    question_column: str
    choices: tuple[str, ...]
    right: str
    first: int | None
    question: str = ""
    meta_columns: tuple[str, ...] = ()

    def match(self, row: Row) -> bool:
        texts = (row.get(name) for name in (self.question_column, *self.choices))
        return self.right in row and all(isinstance(text, str) for text in texts)

    @property
    def kind(self) -> str:
        last = len(self.choices) - 1
        if self.first is None:
            return f"a letter from A to {string.ascii_uppercase[last]}"
        return f"a number from {self.first} to {self.first + last}"

    def place_of(self, value: object) -> int | None:
        """Return the place of the right choice, from 0; None for what names none of them."""
        if self.first is None:
            letter = value.strip().upper() if isinstance(value, str) else ""
            letters = string.ascii_uppercase[: len(self.choices)]
            return letters.index(letter) if letter and letter in letters else None
        number = parse_number(value)
        places = range(len(self.choices))
        return (
            int(number - self.first)
            if number is not None and number - self.first in places
            else None
        )


WINOGRANDE = Columns(
    "sentence", ("option1", "option2"), "answer", 1, "Which of these belongs in the place of _?"
)
PIQA = Columns("goal", ("sol1", "sol2"), "label", 0, "Which of these reaches the goal?")
SOCIAL_IQA = Columns("question", ("answerA", "answerB", "answerC"), "label", 1)
COSMOS_QA = Columns("question", ("answer0", "answer1", "answer2", "answer3"), "label", 0)
MED_MCQA = Columns(
    "question", ("opa", "opb", "opc", "opd"), "cop", 0, "", ("subject_name", "topic_name")
)
# C-Eval, CMMLU, MMMLU, and MMLU as CSV; more letters first.
LETTERS = tuple(
    Columns(
        question, tuple(string.ascii_uppercase[:several]), right, None, "", ("subject", "Subject")
    )
    for several in (5, 4)
    for question, right in (("question", "answer"), ("Question", "Answer"), ("prompt", "answer"))
)
BBQ = Columns("question", ("ans0", "ans1", "ans2"), "label", 0, "", ("category",))
GLOBAL_MMLU = Columns(
    "question", ("option_a", "option_b", "option_c", "option_d"), "answer", None, "", ("subject",)
)
OF_COLUMNS = (WINOGRANDE, PIQA, SOCIAL_IQA, COSMOS_QA, MED_MCQA, BBQ, GLOBAL_MMLU, *LETTERS)


def _is_in_columns(row: Row) -> bool:
    return any(columns.match(row) for columns in OF_COLUMNS)


def _in_columns(row: Row, taking: RowReading) -> Row:
    columns = next(layout for layout in OF_COLUMNS if layout.match(row))
    texts = [row[name].strip() for name in columns.choices]
    question = row[columns.question_column].strip()
    if not question or not all(texts):
        raise NotThisLayout(
            f"{columns.question_column} and the choices: must be text that is not empty"
        )
    place = columns.place_of(row[columns.right])
    if place is None:
        raise NotThisLayout(f"{columns.right}: must be {columns.kind}")
    lettered = dict(zip(string.ascii_uppercase, texts, strict=False))
    question = (
        f"{question}\n\n{columns.question}"
        if columns.question
        else with_given(question, row, SHOWN)
    )
    return lettered_task(
        question, lettered, list(lettered)[place], read_meta(row, *columns.meta_columns)
    )


COPA = {"cause": "What was the cause of this?", "effect": "What happened as a result?"}


def _is_copa(row: Row) -> bool:
    names = ("premise", "choice1", "choice2", "question")
    texts = all(isinstance(row.get(name), str) for name in names)
    return texts and row["question"] in COPA and "label" in row


def _copa(row: Row, taking: RowReading) -> Row:
    number = parse_number(row["label"])
    if number not in (0, 1):
        raise NotThisLayout("label: must be 0 or 1")
    lettered = {"A": row["choice1"].strip(), "B": row["choice2"].strip()}
    question = f"{row['premise'].strip()}\n\n{COPA[row['question']]}"
    return lettered_task(question, lettered, "AB"[int(number)], {})


# -- endings ---------------------------------------------------------------------------------------


def _is_endings(row: Row) -> bool:
    return isinstance(row.get("ctx"), str) and bool(_choices(row.get("endings")))


def _ending(row: Row, taking: RowReading) -> Row:
    """Ask which of the endings continues `ctx`, which `ctx_a` and `ctx_b` repeat in two parts."""
    pass_over(row, "ctx_a", "ctx_b")
    choices = _choices(row["endings"])
    right = _right(row, choices)
    activity = row.get("activity_label")
    context = row["ctx"].strip()
    if not context:
        raise NotThisLayout("ctx: must be text that is not empty")
    beginning = (
        f"{activity.strip()}: {context}" if isinstance(activity, str) and activity else context
    )
    texts = {letter: text.strip() for letter, text in choices.items()}
    meta = read_meta(row, "ind", "source_id", "split_type")
    return lettered_task(f"{ENDINGS}\n\n{beginning}", texts, right, meta)


LAYOUTS = (
    Layout(
        "answers-apart",
        "the right and the wrong answers in columns of their own (GPQA, SciQ, OpenTDB)",
        _has_wrong_answers,
        {TASKS: _mixed_choice},
    ),
    Layout(
        "truthful",
        "TruthfulQA: question and mc1_targets",
        _is_truthful,
        {TASKS: _truthful},
    ),
    Layout(
        "choice-columns",
        "each choice in a column of its own (WinoGrande, PIQA, MedMCQA, C-Eval, MMLU as CSV)",
        _is_in_columns,
        {TASKS: _in_columns},
    ),
    Layout(
        "copa",
        "COPA: premise, choice1, choice2, and question: cause or effect",
        _is_copa,
        {TASKS: _copa},
    ),
    Layout(
        "endings",
        "HellaSwag: ctx, endings and label",
        _is_endings,
        {TASKS: _ending},
    ),
    Layout(
        "quality",
        "QuALITY: article, question, options, and gold_label from 1",
        _is_quality,
        {TASKS: _quality},
    ),
    Layout(
        "choices",
        "questions with choices (MMLU, ARC, CommonsenseQA, RACE, LogiQA, MathQA)",
        _is_choice,
        {TASKS: _choice},
    ),
)
