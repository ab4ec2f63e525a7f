"""Pays a number that comes close enough to the task's: a chart's value within 5 percent, unless told otherwise."""

import math

from pydantic import Field

from apps.rewards.final_answer import NoAnswer
from apps.rewards.numerals import number
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

TOLERANCE = 0.05  # as ChartQA and those after it grade


class Options(ScorerOptions):
    tolerance: float | None = Field(
        None, ge=0, le=1, description="By what share of the right value an answer may miss it; null: what the task says, else 0.05."
    )


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """1 where the reply's one number is `answer["value"]` or `answer["degrees"]` within the tolerance; 0 otherwise."""
    wanted = task.answer.get("value", task.answer.get("degrees"))
    if not _is_number(wanted):
        return Verdict(None, "the task does not say what the value is")
    tolerance = options.tolerance if options.tolerance is not None else task.answer.get("tolerance", TOLERANCE)
    if not _is_number(tolerance) or tolerance < 0:
        return Verdict(None, "the task's tolerance is no share")
    details = {"expected": wanted, "tolerance": tolerance}
    try:
        said = number(rollout.text)
    except NoAnswer as error:
        return Verdict(0.0, str(error), details)
    near = abs(said - wanted) <= tolerance * abs(wanted) * (1 + 1e-9)  # a bound that is met is within, however it is rounded
    return Verdict(float(near), "within the tolerance" if near else "too far off", {**details, "said": said})


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
