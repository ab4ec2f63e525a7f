"""What a run does to its tasks, groups, experiences and batches: a list of operators, by name, each at its stage."""

from typing import Literal

from pydantic import Field, JsonValue

from apps.runs.algorithms.section import Section

Stage = Literal["tasks", "groups", "experiences", "batch"]
MOST_OPERATORS = 50
# Operators that turn what the policy said itself into expert rows.
MAKE_EXPERTS = ("best_answers", "hindsight", "sub_trajectories")


class OperatorChoice(Section):
    operator: str = Field(max_length=60, description="Name of an operator.")
    stage: Stage | None = Field(
        None, description="On tasks before they are drawn, groups before their advantages, experiences after, or the batch of an "
        "update; empty takes the operator's own.",
    )  # fmt: skip
    options: dict[str, JsonValue] = Field({}, description="The operator's own, as `manage.py operators NAME` lists them.")
