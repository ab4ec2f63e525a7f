"""Rewards exactly the task's digits in ascending order."""

from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

SHOWN = 40  # characters of a wrong answer kept in the details


def score(rollout: RolloutView, task: TaskView, options: ScorerOptions) -> Verdict:
    """Return 1 for `answer["sorted"]`, surrounding blanks ignored; 0 otherwise."""
    expected = task.answer.get("sorted")
    if not isinstance(expected, str):
        return Verdict(None, "the task does not state the sorted digits")
    reply = rollout.text.strip()
    details = {"expected": expected, "answer": reply[:SHOWN]}
    if reply == expected:
        return Verdict(1.0, "the digits are in ascending order", details)
    if sorted(reply[: len(expected) + 1]) == sorted(expected):
        return Verdict(0.0, "the correct digits in the wrong order", details)
    return Verdict(0.0, "not the digits of the task", details)
