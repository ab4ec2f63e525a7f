"""Rewards the correct chemical formula, or a balanced equation of the expected reaction."""

import math
import re
from typing import Any

from pydantic import Field

from apps.rewards.final_answer import (
    LINE,
    MAX_ANSWER_LENGTH,
    FinalAnswer,
    after_thinking,
    final_answer,
)
from apps.rewards.mathematics.expected import join_prompt_text
from apps.rewards.school import chemistry, nuclear, structures
from apps.rewards.school.chemistry import NotChemistry, Side, Species
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

SHOWN = 120
VERSION = 10


class Options(ScorerOptions):
    states: bool = Field(
        False,
        description=(
            "Require the state symbols of the task's answer. A wrong symbol is always an error."
        ),
    )
    smallest: bool = Field(False, description="Require the smallest whole-number coefficients.")


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """Return 1 for a reply that equals `answer["value"]` in atoms, charge and water.

    The same reaction with both sides balanced is equal too.
    """
    expected = task.answer.get("value", task.answer.get("answer"))
    if not isinstance(expected, str) or not expected.strip():
        return Verdict(None, "the task does not state the correct formula")
    final = final_answer(rollout.text)
    answer = _answer_or_equation(rollout.text, final) if final else ""
    details = {"expected": expected[:SHOWN], "answer": answer.replace("\x00", "")[:SHOWN]}
    if nuclear.is_reaction(expected):
        return _score_nuclear(expected, answer, final, details)
    if structures.is_smiles(expected):
        return Verdict(None, "the task's answer is a SMILES string, which is not read", details)
    try:
        is_equation = chemistry.is_equation(expected)
        right = chemistry.equation(expected) if is_equation else chemistry.species(expected)
    except NotChemistry as problem:
        return Verdict(None, f"the task's answer is not a chemical formula: {problem}", details)
    if final and any(other_answer != answer for other_answer in final.others):
        return Verdict(0.0, "several different answers", details)
    if final and not is_equation and _lists_formulas(rollout.text, final):
        return Verdict(0.0, "several different answers", details)
    if final and _GUESSED.search(f"{answer} {_last_line(rollout.text)}"):
        return Verdict(0.0, "only guessed", details)
    if final and _DENIED.match(_INSTEAD.sub("", answer)):
        return Verdict(0.0, "the formula is denied", details)
    answer = _INSTEAD.sub("", answer)
    if not _DENIED_IN_CJK.search(answer):
        answer = _CJK_AROUND.sub("", answer)
    try:
        if isinstance(right, Species):
            if right.has_isotope:
                answer = _isotope(rollout.text, answer, final)
            formula, answer = _read(chemistry.species, answer, rollout.text, is_equation, final)
            why = _formula(right, formula, options)
        else:
            sides, _ = _read(chemistry.equation, answer, rollout.text, is_equation, final)
            why = _equation(right, sides, options)
    except NotChemistry as problem:
        kind = "equation" if is_equation else "formula"
        return Verdict(0.0, f"no {kind}: {problem}", details)
    if (
        not why
        and not is_equation
        and structures.differ(*map(_condensed_formula, (expected, answer)))
    ):
        why = "the same atoms, bound in another way"
    if (
        not why
        and not is_equation
        and _ASKS_STRUCTURE.search(join_prompt_text(task.prompt))
        and structures.is_only_composition(*map(_condensed_formula, (expected, answer)))
    ):
        why = "the atoms alone, where the structure is asked for"
    if why:
        return Verdict(0.0, why, details)
    return Verdict(1.0, "balanced and right" if is_equation else "the right formula", details)


def _score_nuclear(
    expected: str, answer: str, final: FinalAnswer | None, details: dict[str, Any]
) -> Verdict:
    """Return 1 for the same nuclides on each side, as often; gamma rays may be left out."""
    if final and any(other_answer != answer for other_answer in final.others):
        return Verdict(0.0, "several different answers", details)
    if _DENIED.match(answer):
        return Verdict(0.0, "the equation is denied", details)
    try:
        sides = nuclear.reaction(_AFTER_COLON.sub("", answer))
    except NotChemistry as problem:
        return Verdict(0.0, f"no equation of nuclei: {problem}", details)
    if left_over := nuclear.unbalanced(*sides):
        return Verdict(0.0, f"not balanced: the {left_over} differs", details)
    if sides != nuclear.reaction(expected):
        return Verdict(0.0, "another reaction", details)
    return Verdict(1.0, "balanced and right", details)


_ASKS_STRUCTURE = re.compile(
    r"\bstructur\w*|\b(?:semi-?)?(?:condensed|developed)\b|struktur\w*|\b(?:semi-)?développée?\b"
    r"|\bestructural\b|\bsemidesarrollada\b|структурн\w*|结构|構造式|示性式",
    re.I,
)
_GUESSED = re.compile(
    r"\b(?:maybe|perhaps|possibly|(?:could|might|may)\sbe|vielleicht|peut-être|quizás?)\b|возможно"
    r"|可能|也许|\((?:or|oder|ou)\s",
    re.I,
)


def _last_line(text: str) -> str:
    return after_thinking(text)[-MAX_ANSWER_LENGTH:].strip().rpartition("\n")[2]


def _lists_formulas(text: str, final: FinalAnswer) -> bool:
    """Tell whether the last two lines are formulas alone, and different ones."""
    lines = [line.strip(" *$.-") for line in after_thinking(text)[-MAX_ANSWER_LENGTH:].splitlines()]
    lines = [line for line in lines if line]
    if final.by != LINE or len(lines) < 2 or any(" " in line for line in lines[-2:]):
        return False
    try:
        first, last = map(chemistry.species, lines[-2:])
    except NotChemistry:
        return False
    return first != last


_AFTER_COLON = re.compile(r"^[A-Za-z ]{3,60}(?::|\bis)\s")  # The equation is: …
# A formula that is said not to be the one: "not NaCl", "It isn't NaCl".
_DENIED = re.compile(
    r"(?:[a-zA-Z' ]{0,40}\b)?(?:not|never|neither|without)\s(?=[\w$\[(\\])|.{0,40}n['’]t\s"
    r"|no\s(?=[\w$\[(\\])|[^\s]{1,60}\s(?:does|do|did|is|are|was|will|can)\s(?:not|never)\s",
    re.I,
)
# Words in Chinese or Japanese around a formula.
_CJK = r"[\u3040-\u30ff\u4e00-\u9fff：，。]"
_CJK_AROUND = re.compile(rf"^{_CJK}{{1,40}}\s?(?=[A-Z0-9$\\(\[])|\s?{_CJK}{{1,20}}$")
_DENIED_IN_CJK = re.compile(r"[不没非]|ない|ません")
_INSTEAD = re.compile(r"^(?:it\sis\s|it['’]s\s)?not\s\S{1,60},?\sbut\s", re.I)
# What sums up an equation before it: "…, so the salt is NaCl".
_CONCLUSION = re.compile(r"(?:[,;]\s|(?<=\w)\.\s)(?:so|thus|hence|therefore)\b,?\s", re.I)
_REMARK = re.compile(r"(?<=\w)\s\([^()]{0,40}\s[^()]{0,40}\)")  # NaCl (from Na+ and Cl-)
_ANOTHER = re.compile(r"(?<=\S),?\s(?:and\s)?not\s.+$")  # CO2, not CO


def _read(
    read: Any, answer: str, response: str, is_equation: bool, final: FinalAnswer | None
) -> tuple[Any, str]:
    """Read the answer without a name behind it, or else the only formula of its sentence.

    Return the formula or equation with the text it was read from. A formula within an equation
    does not count as the answer.
    """
    plain = chemistry.without_name(_ANOTHER.sub("", answer))
    try:
        return read(plain), plain
    except NotChemistry:
        if final is None:
            raise
        sentence = answer
        if final.by == LINE:
            sentence = _last_line(response)
            sentence = _ANOTHER.sub("", sentence)
        if is_equation:
            inside = chemistry.equation_in(sentence)
        else:
            inside = _formula_in(_CONCLUSION.split(sentence)[-1])
        if not inside:
            raise
        return read(inside), inside


def _isotope(response: str, answer: str, final: FinalAnswer | None) -> str:
    """Return the one isotope of the last line, unless it is denied; else of the final answer."""
    line = _last_line(response)
    if final is None or final.by != LINE:
        return chemistry.isotope(answer)
    if _DENIED.match(sentence := _INSTEAD.sub("", _ANOTHER.sub("", line))):
        raise NotChemistry("it is denied")
    isotope = chemistry.isotope(sentence)
    return isotope if isotope != sentence else chemistry.isotope(answer)


def _condensed_formula(text: str) -> str:
    """Return what may be a condensed structural formula: no charge, water or state beside it."""
    plain = chemistry.plain_formula(chemistry.without_name(text))
    return plain if re.fullmatch(r"[A-Za-z0-9()=≡–-]{4,200}", plain) else ""


def _formula_in(sentence: str) -> str:
    """Return the formula that a sentence ends with or has alone.

    Raises NotChemistry for an equation, and for a formula that is denied.
    """
    sentence = _REMARK.sub("", sentence)
    if _DENIED.match(sentence):
        raise NotChemistry("it is denied")
    stated = chemistry.stated_formula(sentence)
    if not stated and (chemistry.has_arrow(sentence) or chemistry.has_sum(sentence)):
        raise NotChemistry("an equation, not one formula")
    return stated or chemistry.formula_in(sentence)


_STRUCTURE = re.compile(r"C[A-Za-z0-9()]{0,60}[=≡][A-Za-z0-9()=≡-]{1,60}")  # CH2=CHCH3


def _answer_or_equation(text: str, final: FinalAnswer) -> str:
    """Return the final answer; an equation or structure on the last line counts as a whole."""
    line = _last_line(text)
    left, sign, _ = line.partition(" = ")
    is_whole = (sign and "+" in left) or chemistry.has_arrow(line) or _STRUCTURE.fullmatch(line)
    return line if final.by == LINE and is_whole else final.text


def _formula(expected: Species, answer: Species, options: Options) -> str:
    """Return why `answer` is another formula; "" if it is the same."""
    if answer.atoms != expected.atoms or answer.hydrate != expected.hydrate:
        return "other atoms"
    if answer.charge != expected.charge:
        return "another charge"
    return _state(expected, answer, options)


def _state(expected: Species, answer: Species, options: Options) -> str:
    if answer.state == expected.state or (
        not options.states and "" in (answer.state, expected.state)
    ):
        return ""
    return "another state, or none"


def _equation(expected: tuple[Side, Side], answer: tuple[Side, Side], options: Options) -> str:
    if left_over := chemistry.unbalanced(*answer):
        return f"not balanced: {left_over} differs"
    expected_sides, answer_sides = (
        (_stateless(left), _stateless(right)) for left, right in (expected, answer)
    )
    if chemistry.equation_ratio(expected_sides, answer_sides) is None:
        return "another reaction"
    if options.smallest and not _is_smallest(answer):
        return "not the smallest whole-number coefficients"
    return next(
        filter(
            None,
            (
                _states(expected_side, answer_side, options)
                for expected_side, answer_side in zip(expected, answer, strict=True)
            ),
        ),
        "",
    )


def _stateless(side: Side) -> Side:
    stateless: Side = {}
    for species, times in side.items():
        stateless[species.stateless] = stateless.get(species.stateless, 0) + times
    return stateless


def _states(expected: Side, answer: Side, options: Options) -> str:
    by_formula = {species.stateless: species for species in answer}
    return next(
        (
            why
            for species in expected
            if (why := _state(species, by_formula[species.stateless], options))
        ),
        "",
    )


def _is_smallest(sides: tuple[Side, Side]) -> bool:
    numbers = [times for side in sides for times in side.values()]
    return (
        all(times.denominator == 1 for times in numbers)
        and math.gcd(*(int(times) for times in numbers)) == 1
    )
