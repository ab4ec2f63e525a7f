"""Pipeline section of a run: a list of operators, by name, each at its stage."""

from typing import Literal

from pydantic import Field, JsonValue

from apps.runs.algorithms.section import Section

Stage = Literal["tasks", "groups", "experiences", "batch"]
MAX_OPERATORS = 50
# Operators that turn what the policy said itself into expert rows.
MAKE_EXPERTS = ("best_answers", "hindsight", "sub_trajectories")


class OperatorChoice(Section):
    operator: str = Field(max_length=60, description="Name of an operator.")
    stage: Stage | None = Field(
        None,
        description=(
            "Where the operator runs: on tasks before sampling, on groups before advantages, on "
            "experiences after advantages, or on the batch of a step. If empty, the operator's "
            "default stage."
        ),
    )
    options: dict[str, JsonValue] = Field(
        {}, description="Options of the operator; `manage.py operators NAME` lists them."
    )
