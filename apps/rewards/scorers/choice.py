"""Rewards the correct letter or letters of a multiple-choice question."""

from pydantic import Field

from apps.rewards.mathematics.expected import join_prompt_text
from apps.rewards.school.false_statements import restate
from apps.rewards.school.letters import (
    picked,
    read_choices,
    read_right_letters,
    says_either,
)
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

VERSION = 10


class Options(ScorerOptions):
    partial: bool = Field(
        False,
        description=(
            "Partial credit if several letters are correct: each correct pick adds its "
            "share, each wrong pick subtracts one."
        ),
    )


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """Return 1 for exactly the letters of `answer["value"]`: "B", "A, C", ["A", "C"].

    The words of a choice may be said, if `answer["choices"]` or lines of the question have them.
    """
    right = read_right_letters(task.answer)
    if not right:
        return Verdict(None, "the task does not name the correct choice")
    question = join_prompt_text(task.prompt)
    reply = restate(rollout.text, question)
    letters = picked(reply, task.answer.get("choices"), several=len(right) > 1)
    if not letters and (choices := read_choices(question)):
        letters = picked(reply, choices, several=len(right) > 1)
    details = {"expected": sorted(right), "answer": sorted(letters)}
    if not letters:
        return Verdict(0.0, "no choice was found", details)
    if len(right) > 1 and says_either(reply):
        return Verdict(0.0, "one of several choices, left open", details)
    if letters == right:
        return Verdict(1.0, "the right choice", details)
    if len(right) > 1 and options.partial:
        share = max(0.0, (len(letters & right) - len(letters - right)) / len(right))
        return Verdict(
            share,
            f"{len(letters & right)} of {len(right)} correct, {len(letters - right)} wrong",
            details,
        )
    return Verdict(
        0.0,
        "several choices, but only one is correct"
        if len(letters) > 1 == len(right)
        else "another choice",
        details,
    )
