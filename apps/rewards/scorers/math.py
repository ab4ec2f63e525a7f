"""Pays a final answer that means the same as the task's: numbers, formulas, sets, intervals, matrices, relations, words."""

import re
from collections.abc import Sequence

from pydantic import Field

from apps.rewards.final_answer import LINE, LONGEST, Final, final_answer
from apps.rewards.mathematics.library import same_for_the_library
from apps.rewards.mathematics.reference import references
from apps.rewards.mathematics.same import Rules, same_answer
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

SHOWN = 80  # characters of an answer kept in the details
VERSION = 2
_NUMBER = re.compile(r"[-+]?[\d.,]++(?:/\d++)?\s?%?")
# What a calculation begins with: numbers and at least one operator between them, no letters.
_CALCULATION = re.compile(r"[-+(\s]*+\d[\d.,)\s]*+[-+*/×·÷−][-+*/×·÷−(\s]*+\d")
# One fraction, perhaps behind a whole number, and scientific notation are numbers.
_WRITTEN_SO = re.compile(r"^[-+]?(?:(?:\d++\s++)?\d++\s?/\s?\d++|[\d.,]++\s?[*×·]\s?10\^\S*)")
_OPERATORS = re.compile(r"\\(?:times|cdot|div)(?![a-zA-Z])")


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
    if refused := _refused(final, rules) or _unfinished(final.text, wanted):
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


def _unfinished(said: str, wanted: Sequence[str]) -> str:
    """Say that a calculation is no answer where a number is wanted; empty where it is one.

    Without this, a policy is paid for writing the question again: 25 + 9 has the value 34.
    """
    said = _OPERATORS.sub("×", said.replace("$", "")).strip()
    if "=" in said or not _CALCULATION.match(_WRITTEN_SO.sub("1", said)):
        return ""
    is_number = any(_NUMBER.fullmatch(each.strip(" $")) for each in wanted)
    return "a calculation, not its result" if is_number else ""


def _shown(text: str) -> str:
    return text.replace("\x00", "")[:SHOWN]
