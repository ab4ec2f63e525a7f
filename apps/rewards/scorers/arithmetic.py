"""Rewards an integer in plain digits that equals the task's answer."""

import re

from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

_NUMBER = re.compile(r"[+-]?[0-9]{1,30}")
SHOWN = 40  # characters of a wrong answer kept in the details


def score(rollout: RolloutView, task: TaskView, options: ScorerOptions) -> Verdict:
    """Return 1 for the number `answer["value"]`, surrounding blanks ignored; 0 otherwise.

    Nothing is evaluated.
    """
    expected = task.answer.get("value")
    if type(expected) is not int:
        return Verdict(None, "the task does not state the sum")
    answer = rollout.text.strip()
    details = {"expected": expected, "answer": answer[:SHOWN]}
    if not _NUMBER.fullmatch(answer):
        return Verdict(0.0, "not a whole number", details)
    if int(answer) == expected:
        return Verdict(1.0, "the right number", details)
    return Verdict(0.0, "another number", {**details, "reached": {"value": int(answer)}})
