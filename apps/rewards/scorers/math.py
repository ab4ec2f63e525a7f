"""Pays a final answer that means the same as the task's: numbers, formulas, sets, intervals, matrices, relations, words."""

from pydantic import Field

from apps.rewards.final_answer import LINE, LONGEST, Final, final_answer
from apps.rewards.mathematics.library import same_for_the_library
from apps.rewards.mathematics.reference import references
from apps.rewards.mathematics.same import Rules, same_answer
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

SHOWN = 80  # characters of an answer kept in the details


class Options(ScorerOptions):
    percent: bool = Field(True, description="50 % is the same as 0.5. Without it, a percentage is only the same as a percentage.")
    units: bool = Field(True, description="A unit behind the number may be left out; another known unit is never right.")
    tolerance: float = Field(0.0, ge=0, le=1, description="How far from the right number an answer may be, relative to it.")
    strict: bool = Field(False, description="Only an answer that is marked counts: boxed, behind ####, or in <answer> tags.")


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """1 where the final answer means `answer["value"]` (or one of a list of them); 0 otherwise, also for two different answers."""
    wanted = references(task.answer)
    if not wanted:
        return Verdict(None, "the task does not say what the answer is")
    final = final_answer(rollout.text)
    if final is None or (options.strict and final.by == LINE):
        return Verdict(0.0, "no final answer was found", {"expected": _shown(wanted[0])})
    details = {"expected": _shown(wanted[0]), "said": _shown(final.text), "found_in": final.by}
    rules = Rules(options.percent, options.units, options.tolerance)
    if refused := _refused(final, rules):
        return Verdict(0.0, refused, details)
    if any(same_answer(each, final.text, rules) or same_for_the_library(each, final.text) for each in wanted):
        return Verdict(1.0, "the right answer", details)
    return Verdict(0.0, "another answer", details)


def _refused(final: Final, rules: Rules) -> str:
    """Why this is no answer; empty where it is one."""
    if len(final.text) > LONGEST:
        return f"an answer of more than {LONGEST} characters"
    different = [other for other in final.others if not same_answer(final.text, other, rules)]
    return f"several different answers were given: {_shown(different[0])} and {_shown(final.text)}" if different else ""


def _shown(text: str) -> str:
    return text.replace("\x00", "")[:SHOWN]
