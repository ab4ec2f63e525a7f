"""Pays the right count of what a picture shows, in digits or as a word."""

from apps.rewards.final_answer import NoAnswer
from apps.rewards.numerals import number
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict


def score(rollout: RolloutView, task: TaskView, options: ScorerOptions) -> Verdict:
    """1 where the reply's one number is `answer["count"]`; 0 otherwise."""
    wanted = task.answer.get("count", task.answer.get("value"))
    if type(wanted) is not int:
        return Verdict(None, "the task does not say how many there are")
    try:
        said = number(rollout.text, words=True)
    except NoAnswer as error:
        return Verdict(0.0, str(error), {"expected": wanted})
    right = said == wanted
    return Verdict(float(right), "the right count" if right else "another count", {"expected": wanted, "said": said})
