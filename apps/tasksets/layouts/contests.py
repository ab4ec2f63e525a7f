"""Layouts of mathematics and science whose answers have forms of their own, as OlympiadBench's."""

import re

from apps.tasksets.layouts.contract import (
    TASKS,
    Layout,
    NotThisLayout,
    Row,
    RowReading,
    first_text,
    is_texts,
    require_text,
)
from apps.tasksets.layouts.conversations import decoded
from apps.tasksets.layouts.questions import read_meta

STATED = re.compile(r"The answer is:?[ \t]*(\S[^\n]*)\s*$")
MAX_STATED_LENGTH = 2_000  # characters at the end of an answer in which its result is looked for
AROUND = " \t\n$"  # a formula


def with_unit(value: str, unit: object) -> dict[str, str]:
    """Return an answer with its unit, as scorers of quantities and mathematics read it."""
    plain = unit.strip(AROUND) if isinstance(unit, str) else ""
    return {"value": value, **({"unit": plain} if plain else {})}


# -- OlympiadBench ---------------------------------------------------------------------------------


def _is_olympiad(row: Row) -> bool:
    has_question = {"question", "final_answer"} <= row.keys() and isinstance(
        row.get("question"), str
    )
    return has_question and bool(
        first_text(row, ("is_multiple_answer", "answer_type", "question_type"))
    )


def _olympiad(row: Row, taking: RowReading) -> Row:
    """Take the answers of a question; several of them are all needed."""
    answers = decoded(row["final_answer"])
    if not is_texts(answers) or not all(text.strip() for text in answers):
        kind = f" ({row['question_type']})" if row.get("question_type") else ""
        raise NotThisLayout(f"final_answer: is empty{kind}, so the task cannot be judged")
    answer_text = ", ".join(text.strip(AROUND) for text in answers)
    context = row.get("context")
    parts = [context if isinstance(context, str) else "", require_text(row, "question")]
    question = "\n\n".join(part.strip() for part in parts if part.strip())
    names = ("subject", "subfield", "difficulty", "answer_type", "error", "language")
    return {
        "prompt": question,
        "answer": with_unit(answer_text, row.get("unit")),
        "meta": read_meta(row, *names),
    }


# -- SciBench --------------------------------------------------------------------------------------


def _is_scibench(row: Row) -> bool:
    return isinstance(row.get("problem_text"), str) and row.get("answer_number") is not None


def _scibench(row: Row, taking: RowReading) -> Row:
    answer = with_unit(str(row["answer_number"]).strip(), row.get("unit"))
    return {
        "prompt": require_text(row, "problem_text"),
        "answer": answer,
        "meta": read_meta(row, "source", "problemid"),
    }


# -- MetaMath --------------------------------------------------------------------------------------


def _has_stated_answer(row: Row) -> bool:
    """Tell whether a worked solution under `response` ends with "The answer is: 4"."""
    return (
        isinstance(row.get("query"), str)
        and isinstance(row.get("response"), str)
        and STATED.search(row["response"][-MAX_STATED_LENGTH:]) is not None
    )


def _stated_answer_task(row: Row, taking: RowReading) -> Row:
    match = STATED.search(row["response"][-MAX_STATED_LENGTH:])
    if match is None:
        raise NotThisLayout("response: must end with 'The answer is:' and the answer")
    meta = {"solution": row["response"], **read_meta(row, "type")}
    return {"prompt": require_text(row, "query"), "answer": match[1].strip(), "meta": meta}


# -- CRUXEval --------------------------------------------------------------------------------------


def _is_execution(row: Row) -> bool:
    texts = all(isinstance(row.get(name), str) for name in ("code", "input", "output"))
    return texts and "def f(" in row["code"]


def _execution(row: Row, taking: RowReading) -> Row:
    code = require_text(row, "code").strip()
    question = f"```python\n{code}\n```\n\nWhat does `f({row['input']})` return?"
    return {"prompt": question, "answer": require_text(row, "output").strip(), "meta": {}}


LAYOUTS = (
    Layout(
        "cruxeval",
        "CRUXEval: code, input and output",
        _is_execution,
        {TASKS: _execution},
    ),
    Layout(
        "olympiadbench",
        "OlympiadBench: question, a list under final_answer, and unit",
        _is_olympiad,
        {TASKS: _olympiad},
    ),
    Layout(
        "scibench",
        "SciBench: problem_text, answer_number and unit",
        _is_scibench,
        {TASKS: _scibench},
    ),
    Layout(
        "metamath",
        "MetaMath: query, and a response that ends with 'The answer is:'",
        _has_stated_answer,
        {TASKS: _stated_answer_task},
    ),
)
