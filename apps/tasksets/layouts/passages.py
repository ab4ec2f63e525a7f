"""Layouts of questions about texts: what a passage says (DROP), what follows from it (NLI)."""

from typing import Any, cast

from apps.tasksets.layouts.choices import lettered_task
from apps.tasksets.layouts.contract import (
    TASKS,
    Layout,
    NotThisLayout,
    Row,
    RowReading,
    first_text,
    is_texts,
    parse_number,
    require_text,
)
from apps.tasksets.layouts.conversations import decoded
from apps.tasksets.layouts.questions import read_meta

# -- DROP ------------------------------------------------------------------------------------------


def _is_drop(row: Row) -> bool:
    is_asked = isinstance(row.get("passage"), str) and isinstance(row.get("question"), str)
    return is_asked and (_spans_of(row) is not None or _is_annotated(decoded(row.get("answer"))))


def _spans_of(row: Row) -> Any:
    spans = decoded(row.get("answers_spans"))
    return spans.get("spans") if isinstance(spans, dict) else None


def _is_annotated(answer: object) -> bool:
    return isinstance(answer, dict) and {"number", "date", "spans"} <= answer.keys()


def _drop_task(row: Row, taking: RowReading) -> Row:
    right = _span_answer(row) if _spans_of(row) is not None else _annotated_answers(row, taking)
    question = f"{require_text(row, 'passage').strip()}\n\n{require_text(row, 'question').strip()}"
    meta = read_meta(row, "section_id", "query_id")
    return {"prompt": question, "answer": right[0] if len(right) == 1 else right, "meta": meta}


def _span_answer(row: Row) -> list[str]:
    """Return the one answer. Raises NotThisLayout for several.

    In one half of the set they are parts of one answer, in the other what different people said.
    """
    spans = cast("Row", decoded(row["answers_spans"]))["spans"]  # by `_spans_of`
    if not is_texts(spans) or not all(text.strip() for text in spans):
        raise NotThisLayout("answers_spans.spans: must be a list of texts that is not empty")
    if len({text.strip().casefold() for text in spans}) > 1:
        raise NotThisLayout(
            "answers_spans.spans: has several different texts, and does not say whether all of "
            "them are needed or any of them is right"
        )
    return [spans[0].strip()]


def _annotated_answers(row: Row, taking: RowReading) -> list[str]:
    """Return the answers of the author and of the people who checked it; any of them is right."""
    answers = _annotation(cast("Row", decoded(row["answer"])))  # by `_is_annotated`
    checked = decoded(row.get("validated_answers"))
    if isinstance(checked, dict):
        columns = [checked.get(name) or [] for name in ("number", "date", "spans")]
        checked = [
            {"number": number, "date": date, "spans": spans}
            for number, date, spans in zip(*columns, strict=False)
        ]
    for annotation in checked if isinstance(checked, list) else []:
        answers += _annotation(annotation) if isinstance(annotation, dict) else []
    if not answers:
        raise NotThisLayout("answer: must have a number, a date or spans")
    return list(dict.fromkeys(answers))


def _annotation(answer: Row) -> list[str]:
    """Return the forms of one answer: a number, a date, or all of its spans."""
    number = answer.get("number")
    date = answer.get("date")
    spans = answer.get("spans")
    if parse_number(number) is not None:
        return [str(number).strip()]
    if isinstance(date, dict):
        parts = [date.get(name) for name in ("day", "month", "year")]
        if text := " ".join(part.strip() for part in parts if isinstance(part, str) and part):
            return [text]
    if not is_texts(spans):
        return []
    *first, last = spans
    joined_spans = [", ".join(spans), *([f"{', '.join(first)} and {last}"] if first else [])]
    return list(dict.fromkeys(joined_spans))


# -- natural language inference --------------------------------------------------------------------

RELATIONS = ("entailment", "neutral", "contradiction")  # as SNLI, MNLI, ANLI and XNLI number them
TWO_WAY = ("entailment", "not entailment")
PAIRS = (("premise", "hypothesis"), ("sentence1", "sentence2"))
VERDICTS = ("gold_label", "label", "label_text")
FOLLOWS = "How does the hypothesis relate to the premise?"


def _premise_and_hypothesis(row: Row) -> tuple[str, str] | None:
    pairs = (pair for pair in PAIRS if all(isinstance(row.get(name), str) for name in pair))
    return next(pairs, None)


def _is_inference(row: Row) -> bool:
    return _premise_and_hypothesis(row) is not None and bool(first_text(row, VERDICTS))


def _inference(row: Row, taking: RowReading) -> Row:
    sides = _premise_and_hypothesis(row)
    assert sides is not None  # by `_is_inference`
    name = first_text(row, VERDICTS)
    right = _relation(row, name, sides)
    relations = TWO_WAY if right == TWO_WAY[1] else RELATIONS
    premise, hypothesis = (require_text(row, side).strip() for side in sides)
    question = f"Premise: {premise}\n\nHypothesis: {hypothesis}\n\n{FOLLOWS}"
    letters = dict(zip("ABC", relations, strict=False))
    letter = next(label for label, relation in letters.items() if relation == right)
    return lettered_task(question, letters, letter, read_meta(row, "genre"))


def _relation(row: Row, name: str, sides: tuple[str, str]) -> str:
    """Return the relation's name. Raises NotThisLayout where nobody agreed on one.

    Numbers have one order in SNLI, MNLI, ANLI and XNLI, and others in other sets: RTE, MRPC and
    WNLI call their sides sentences, and SuperGLUE's CB and RTE have `idx` before the label.
    """
    relation = row[name]
    number = parse_number(relation)
    if number is None:
        text = relation.strip().lower().replace("_", " ") if isinstance(relation, str) else ""
        spellings = {**dict.fromkeys(("non entailment", "not-entailment"), TWO_WAY[1])}
        text = spellings.get(text, text)
        if text in (*RELATIONS, TWO_WAY[1]):
            return text
        raise NotThisLayout(
            f"{name}: is {relation!r}, not one of {', '.join((*RELATIONS, 'not_entailment'))}"
        )
    columns = list(row)
    is_other = "idx" in columns and columns.index("idx") < columns.index(name)
    if sides != PAIRS[0] or is_other:
        raise NotThisLayout(
            f"{name}: is a number, whose meaning differs between sets of this kind; give the "
            "relation's name, such as entailment"
        )
    if number not in (0, 1, 2):
        raise NotThisLayout(f"{name}: must be 0, 1 or 2 (entailment, neutral, contradiction)")
    return RELATIONS[int(number)]


LAYOUTS = (
    Layout(
        "drop",
        "DROP: passage, question and answers_spans, or answer with number, date and spans",
        _is_drop,
        {TASKS: _drop_task},
    ),
    Layout(
        "inference",
        "inference (SNLI, MNLI, ANLI): premise, hypothesis and label",
        _is_inference,
        {TASKS: _inference},
    ),
)
