"""What a run does to its groups and experiences between judging and training: a list of operators, by name."""

from typing import Literal

from pydantic import Field, JsonValue

from apps.runs.algorithms.section import Section

Stage = Literal["groups", "experiences"]
MOST_OPERATORS = 50
# Operators that turn what the policy said itself into expert rows.
MAKE_EXPERTS = ("best_answers", "hindsight", "sub_trajectories")


class OperatorChoice(Section):
    operator: str = Field(max_length=60, description="Name of an operator.")
    stage: Stage | None = Field(
        None, description="On whole groups before their advantages, or on experiences after; empty takes the operator's own."
    )
    options: dict[str, JsonValue] = Field({}, description="The operator's own, as `manage.py operators NAME` lists them.")
