"""Rewards a formula that reaches the target and uses each given number as often as given."""

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal

from pydantic import Field

from apps.rewards.final_answer import after_thinking, boxes, last_line, tags
from apps.rewards.mathematics.arithmetic import NotArithmetic, evaluate_formula, operands
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

VERSION = 2
SHOWN = 80  # characters of a formula kept in the details
MAX_NUMBERS = 50
MAX_REACHED = 10**9


class Options(ScorerOptions):
    use: Literal["exactly", "at_most"] = Field(
        "exactly", description="Require that every number is used."
    )
    format: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Reward for a formula with the correct numbers but a wrong value.",
    )


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """Return 1 for a formula of + − × ÷ over `answer["numbers"]` that equals `answer["target"]`.

    Brackets are allowed; the value must be exact.
    """
    task_numbers = _target_and_numbers(task.answer)
    if task_numbers is None:
        return Verdict(None, "the task does not state the numbers and the target")
    target, numbers = task_numbers
    formula = _formula(rollout.text)
    details: dict[str, Any] = {"target": str(target), "answer": formula.replace("\x00", "")[:SHOWN]}
    if not formula:
        return Verdict(0.0, "no formula was found", details)
    try:
        used = operands(formula)
        value = evaluate_formula(formula)
    except NotArithmetic as problem:
        return Verdict(0.0, f"no formula: {problem}", details)
    details["value"] = str(value)[:SHOWN]
    if wrong := _explain_misuse(Counter(used), Counter(numbers), options.use):
        return Verdict(0.0, wrong, details)
    if value == target:
        return Verdict(1.0, "the numbers make the target", details)
    if (
        value.denominator == 1
        and 0 < value <= MAX_REACHED
        and not _explain_misuse(Counter(used), Counter(numbers), "exactly")
    ):
        details["reached"] = {"target": int(value)}
    return Verdict(options.format, "the correct numbers, but a wrong value", details)


def _target_and_numbers(answer: Mapping[str, Any]) -> tuple[Fraction, list[Fraction]] | None:
    target = answer.get("target", answer.get("value"))
    numbers = answer.get("numbers", answer.get("nums"))
    if not isinstance(numbers, list) or not 0 < len(numbers) <= MAX_NUMBERS:
        return None
    try:
        return _number(target), [_number(number) for number in numbers]
    except (TypeError, ValueError):
        return None


def _number(value: Any) -> Fraction:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | str)
        or len(str(value)) > 30
        or "e" in str(value).lower()
    ):
        raise TypeError("no number")
    return Fraction(str(value).strip())


def _formula(response: str) -> str:
    """Extract the formula from <answer> tags, else from a box, else from the last line.

    What follows "=" only repeats the value.
    """
    reply = after_thinking(response)
    marked = tags(reply) or boxes(reply)
    final = last_line(reply)
    formula = marked[-1] if marked else final.text if final else ""
    return formula if marked or not final else _with_formula(reply, final.text)


def _with_formula(reply: str, final: str) -> str:
    """Return the last line itself, where its end is only the value: "(1+2)*3 = 9"."""
    line = reply.strip().splitlines()[-1]
    return (
        line.strip().strip("*`$. ")
        if "=" in line and not any(sign in final for sign in "+-*/×÷")
        else final
    )


def _explain_misuse(used: Counter, available: Counter, use: str) -> str:
    if excess := used - available:
        return f"{next(iter(excess))} was used more often than given"
    if use == "exactly" and (unused := available - used):
        return f"{next(iter(unused))} was not used"
    return ""
