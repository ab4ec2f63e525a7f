"""Rewards the correct number of objects in a picture, in digits or in words."""

import re

from apps.rewards import rough_values
from apps.rewards.altered_numbers import without_asked_bounds
from apps.rewards.final_answer import NoAnswer, after_thinking
from apps.rewards.mathematics.expected import join_prompt_text
from apps.rewards.numerals import find_final_number
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

VERSION = 12


def score(rollout: RolloutView, task: TaskView, options: ScorerOptions) -> Verdict:
    """Return 1 where the reply's one number is `answer["count"]`; 0 otherwise."""
    expected = task.answer.get("count", task.answer.get("value"))
    if isinstance(expected, str) and re.fullmatch(r"\d{1,9}", expected.strip(), re.ASCII):
        expected = int(expected)  # a table of texts
    if type(expected) is not int:
        return Verdict(None, "the task does not state the count")
    reply = without_asked_bounds(rollout.text, join_prompt_text(task.prompt))
    try:
        number = find_final_number(reply, words=True)
    except NoAnswer as error:
        return Verdict(0.0, str(error), {"expected": expected})
    details = {"expected": expected, "answer": number.value}
    is_rough = rough_values.asks_rough(join_prompt_text(task.prompt))
    if not is_rough and rough_values.is_only_near(after_thinking(reply), f"{number.value:g}"):
        return Verdict(0.0, "only near a number, not a count", details)
    if number.is_percent:
        return Verdict(0.0, "a percentage, not a count", details)
    right = number.value == expected
    return Verdict(float(right), "the right count" if right else "another count", details)
