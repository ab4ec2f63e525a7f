"""Rewards a reply that follows instructions that a program can check, as in IFEval."""

from pydantic import Field

from apps.rewards.final_answer import after_thinking
from apps.rewards.instructions import follows
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict
from apps.tasksets.checked_instructions import BadInstructions, normal_form


class Options(ScorerOptions):
    partial: bool = Field(
        False, description="Give the share of the instructions that are followed, not all or none."
    )


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """Return 1 where each of `answer["instructions"]` is followed; reasoning does not count.

    NULL where one cannot be decided and all others are followed.
    """
    try:
        instructions = normal_form(task.answer)
    except BadInstructions as problem:
        return Verdict(None, f"the task's instructions cannot be checked: {problem}")
    if not instructions:
        return Verdict(None, "the task has no instructions to check")
    reply = after_thinking(rollout.text)
    results = [
        (instruction["id"], follows(instruction["id"], instruction["kwargs"], reply))
        for instruction in instructions
    ]
    details = {"followed": [name for name, holds in results if holds]}
    details |= {"not_followed": [name for name, holds in results if holds is False]}
    undecided = [name for name, holds in results if holds is None]
    if undecided and (options.partial or not details["not_followed"]):
        reason = f"{undecided[0]} cannot be decided for this reply"
        return Verdict(None, reason, {**details, "undecided": undecided})
    right = len(details["followed"])
    reason = f"{right} of {len(results)} instructions followed"
    value = right / len(results) if options.partial else float(right == len(results))
    return Verdict(value, reason, details)
