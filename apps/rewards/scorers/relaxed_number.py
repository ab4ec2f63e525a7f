"""Rewards a number within a relative tolerance of the task's, by default 5 percent."""

import math
import re
from collections.abc import Sequence
from typing import TypeGuard

from pydantic import Field

from apps.rewards import number_words, years
from apps.rewards.altered_numbers import without_asked_bounds
from apps.rewards.final_answer import NoAnswer, after_thinking, final_answer
from apps.rewards.mathematics.expected import join_prompt_text
from apps.rewards.numerals import Number, find_final_number
from apps.rewards.school.references import is_reference
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

VERSION = 12
SHOWN = 80
_PLAIN = re.compile(r"(-?\d{1,15}(?:,\d{3}){0,4}(?:\.\d{1,15})?)\s?(%?)", re.ASCII)
TOLERANCE = 0.05  # as ChartQA and those after it grade
YEARS = range(1900, 2101)  # whole numbers that are taken for years, where nothing says otherwise
ANY_YEARS = range(1000, 3000)  # of a question for a year
_ASKS_WHICH_YEAR = re.compile(
    r"\b(?:which|what)\s(?:calendar\s)?year\b|\bwhen\b|哪一?年|何年", re.I
)
_CURRENCY = "$€£¥ "
_ASKS_YEAR = re.compile(r"\b(?:years?|when|dates?|since|until|decade)\b|年", re.I)


class Options(ScorerOptions):
    tolerance: float | None = Field(
        None,
        ge=0,
        le=1,
        description=(
            "Tolerance relative to the correct value. Null: the task's own, otherwise 0.05, "
            "or 0 for years."
        ),
    )


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """Return 1 where the reply's one number is near `answer["value"]` or `answer["degrees"]`.

    Else 0.

    A percentage is the number before its sign, or a hundredth of it.
    """
    expected = _as_number(task.answer.get("value", task.answer.get("degrees")))
    if isinstance(expected, str) and expected.strip():
        return _judge_words(rollout, expected, task)
    if not _is_number(expected):
        return Verdict(None, "the task has no value as its answer")
    tolerance = options.tolerance
    if tolerance is None:
        tolerance = task.answer.get("tolerance", 0 if _is_year(expected, task) else TOLERANCE)
    if not _is_number(tolerance) or tolerance < 0:
        return Verdict(None, "the task's tolerance is not a number from 0 to 1")
    details = {"expected": expected, "tolerance": tolerance}
    question = join_prompt_text(task.prompt)
    reply = years.in_one_form(without_asked_bounds(rollout.text, question))
    is_year = not tolerance and _is_year(expected, task)
    if is_year and years.is_vague(after_thinking(reply)):
        return Verdict(0.0, "a year that is not certain", details)
    try:
        number = find_final_number(reply, words=True)
    except NoAnswer as error:
        return Verdict(0.0, str(error), details)
    # A bound that is met is within, however it is rounded.
    allowed = tolerance * abs(expected) * (1 + 1e-9)
    is_near = any(abs(value - expected) <= allowed for value in _values(number))
    reason = "within the tolerance" if is_near else "too far off"
    return Verdict(float(is_near), reason, {**details, "answer": number.value})


def _as_number(expected: object) -> object:
    """Return what a table of texts says as a number: "$1,200", "45%"; else the value itself."""
    if isinstance(expected, list) and len(expected) == 1:  # ["14"], as ChartQA has it
        expected = expected[0]
    if not isinstance(expected, str):
        return expected
    match = _PLAIN.fullmatch(number_words.write_in_digits(expected.strip(_CURRENCY)))
    if match is None:
        return expected
    return float(match[1].replace(",", "")) / (100 if match[2] else 1)


def _judge_words(rollout: RolloutView, expected: str, task: TaskView) -> Verdict:
    """Compare a name that a chart shows: the reply must give it as its answer."""
    details = {"expected": expected[:SHOWN]}
    final = final_answer(rollout.text)
    texts = [] if final is None else [final.text, after_thinking(rollout.text)]
    question = join_prompt_text(task.prompt)
    if any(is_reference(text, [expected], question) for text in texts):
        return Verdict(1.0, "the right name", details)
    return Verdict(0.0, "another answer", details)


def _values(number: Number) -> Sequence[float]:
    return (number.value, number.value / 100) if number.is_percent else (number.value,)


def _is_year(expected: float, task: TaskView) -> bool:
    """Tell whether a whole number is a year: the question asks for one, or nothing was asked."""
    if "degrees" in task.answer or expected not in ANY_YEARS:
        return False
    question = join_prompt_text(task.prompt)
    if expected not in YEARS:
        return bool(_ASKS_WHICH_YEAR.search(question))
    return not question or bool(_ASKS_YEAR.search(question))


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
