"""Pays a number with its unit, in any unit of the same kind, within a tolerance."""

from typing import Literal

from pydantic import Field

from apps.rewards.final_answer import LINE, final_answer
from apps.rewards.school import quantities
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

SECONDS = 15.0  # the table of units takes seconds to be read, once for each process
SHOWN = 80


class Options(ScorerOptions):
    tolerance: float = Field(0.01, ge=0, le=1, description="How far from the right value an answer may be, relative to it.")
    absolute: float = Field(0.0, ge=0, description="Or how far in the task's unit; the wider of the two holds.")
    unit: Literal["required", "optional"] = Field("required", description="Whether an answer without a unit is in the task's one.")
    significant_figures: int | None = Field(None, ge=1, le=15, description="The answer has so many, rounded right.")


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """1 for `answer["value"]` in `answer["unit"]`, or for a value as "9.8 m/s^2"; 0 otherwise."""
    wanted = quantities.asked(task.answer)
    if wanted is None:
        return Verdict(None, "the task does not say which quantity is right")
    final = final_answer(rollout.text)
    details = {"expected": str(wanted), "said": final.text.replace("\x00", "")[:SHOWN] if final else ""}
    said = quantities.read(final.text) if final else None
    if final and final.by == LINE and not (said and quantities.has_known_unit(said)):
        said = quantities.in_sentence(rollout.text) or said
    if said is None:
        return Verdict(0.0, "no number with a unit was found", details)
    if any(other != said for other in map(quantities.read, final.others)):
        return Verdict(0.0, "several different answers were given", details)
    problem = quantities.wrong(wanted, said, options)
    return Verdict(0.0, problem, details) if problem else Verdict(1.0, "the right quantity", details)
