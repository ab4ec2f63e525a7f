"""Pays the right chemical formula, or a balanced equation of the right reaction."""

import math

from pydantic import Field

from apps.rewards.final_answer import LINE, LONGEST, Final, after_thinking, final_answer
from apps.rewards.school import chemistry
from apps.rewards.school.chemistry import NotChemistry, Side, Species
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

SHOWN = 120


class Options(ScorerOptions):
    states: bool = Field(False, description="State symbols must be there as in the task's answer; a wrong one is never right.")
    smallest: bool = Field(False, description="An equation must have the smallest whole numbers.")


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """1 for what says the same as `answer["value"]`: atoms, charge, water; or the same reaction with its sides balanced."""
    wanted = task.answer.get("value", task.answer.get("answer"))
    if not isinstance(wanted, str) or not wanted.strip():
        return Verdict(None, "the task does not say which formula is right")
    final = final_answer(rollout.text)
    said = _of_equation(rollout.text, final) if final else ""
    details = {"expected": wanted[:SHOWN], "said": said.replace("\x00", "")[:SHOWN]}
    try:
        is_equation = chemistry.is_equation(wanted)
        right = chemistry.equation(wanted) if is_equation else chemistry.species(wanted)
    except NotChemistry as problem:
        return Verdict(None, f"the task's answer is no chemistry: {problem}", details)
    if final and any(other != said for other in final.others):
        return Verdict(0.0, "several different answers were given", details)
    try:
        compare, read = (_equation, chemistry.equation) if is_equation else (_formula, chemistry.species)
        why = compare(right, read(said), options)
    except NotChemistry as problem:
        return Verdict(0.0, f"no {'equation' if is_equation else 'formula'}: {problem}", details)
    if why:
        return Verdict(0.0, why, details)
    return Verdict(1.0, "balanced and right" if is_equation else "the right formula", details)


def _of_equation(text: str, final: Final) -> str:
    """A last line that is an equation by "=" is all of it, not what stands behind the sign."""
    line = after_thinking(text)[-LONGEST:].strip().rpartition("\n")[2]
    left, sign, _ = line.partition(" = ")
    return line if final.by == LINE and sign and "+" in left else final.text


def _formula(wanted: Species, said: Species, options: Options) -> str:
    """Why it is another one; empty where it is not."""
    if said.atoms != wanted.atoms or said.hydrate != wanted.hydrate:
        return "other atoms"
    if said.charge != wanted.charge:
        return "another charge"
    return _state(wanted, said, options)


def _state(wanted: Species, said: Species, options: Options) -> str:
    if said.state == wanted.state or (not options.states and "" in (said.state, wanted.state)):
        return ""
    return "another state, or none"


def _equation(wanted: tuple[Side, Side], said: tuple[Side, Side], options: Options) -> str:
    if left_over := chemistry.unbalanced(*said):
        return f"not balanced: {left_over} differs"
    plain = [tuple(_stateless(side) for side in each) for each in (wanted, said)]
    if chemistry.ratio(*plain) is None:
        return "another reaction"
    if options.smallest and not _is_smallest(said):
        return "not the smallest whole numbers"
    return next(filter(None, (_states(ours, theirs, options) for ours, theirs in zip(wanted, said, strict=True))), "")


def _stateless(side: Side) -> Side:
    found: Side = {}
    for species, times in side.items():
        found[species.stateless] = found.get(species.stateless, 0) + times
    return found


def _states(wanted: Side, said: Side, options: Options) -> str:
    by_formula = {species.stateless: species for species in said}
    return next((why for ours in wanted if (why := _state(ours, by_formula[ours.stateless], options))), "")


def _is_smallest(sides: tuple[Side, Side]) -> bool:
    numbers = [times for side in sides for times in side.values()]
    return all(times.denominator == 1 for times in numbers) and math.gcd(*(int(times) for times in numbers)) == 1
