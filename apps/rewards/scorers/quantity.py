"""Rewards a number with its unit, in any compatible unit, within a tolerance."""

from typing import Literal

from pydantic import Field

from apps.rewards.altered_numbers import without_asked_bounds
from apps.rewards.corrections import last_statement
from apps.rewards.final_answer import LINE, after_thinking, final_answer
from apps.rewards.mathematics import unit_names
from apps.rewards.mathematics.expected import join_prompt_text
from apps.rewards.school import quantities
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

VERSION = 12
SHOWN = 80


class Options(ScorerOptions):
    tolerance: float = Field(
        0.01,
        ge=0,
        le=1,
        description="Tolerance relative to the correct value.",
    )
    absolute: float = Field(
        0.0, ge=0, description="Tolerance in the task's unit. The larger of the two applies."
    )
    unit: Literal["required", "optional"] = Field(
        "required", description="Treat an answer without a unit as given in the task's unit."
    )
    significant_figures: int | None = Field(
        None,
        ge=1,
        le=15,
        description="Number of significant figures the answer must have, correctly rounded.",
    )


def prepare(task: TaskView) -> None:
    """Read the table of units."""
    quantities.load_unit_table()


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """Return 1 for `answer["value"]` in `answer["unit"]`, or for a value as "9.8 m/s^2".

    0 otherwise.
    """
    expected = quantities.read_wanted_quantity(task.answer)
    if expected is None:
        return Verdict(None, "the task does not state the correct quantity")
    reply = unit_names.in_symbols(rollout.text)
    reply = without_asked_bounds(reply, join_prompt_text(task.prompt))
    final = final_answer(reply)
    details = {
        "expected": str(expected),
        "answer": final.text.replace("\x00", "")[:SHOWN] if final else "",
    }
    quantity = quantities.parse_quantity(final.text) if final else None
    if final and final.by == LINE and not (quantity and quantities.has_known_unit(quantity)):
        quantity = quantities.in_sentence(last_statement(after_thinking(reply))) or quantity
    if final is None or quantity is None:
        return Verdict(0.0, "no number with a unit found", details)
    if any(
        other_quantity != quantity
        for other_quantity in map(quantities.parse_quantity, final.others)
    ):
        return Verdict(0.0, "several different answers", details)
    problem = quantities.explain_difference(expected, quantity, options)
    if problem:
        return Verdict(0.0, problem, details)
    return Verdict(1.0, "the right quantity", details)
