"""What a run may use at most. Beyond a limit it pauses, and goes on once that is raised."""

from typing import Annotated

from pydantic import Field, model_validator

from apps.runs.algorithms.section import Section

Amount = Annotated[float, Field(gt=0, le=1e15, allow_inf_nan=False)]


class Budget(Section):
    gpu_hours: Amount | None = Field(None, description="Hours of GPUs, all roles together.")
    cpu_hours: Amount | None = Field(None, description="Hours of processors, all roles together.")
    tokens: Amount | None = Field(None, description="Tokens sampled, those of finished replies.")
    judge_tokens: Amount | None = Field(None, description="Tokens of judges, read and written.")
    people_hours: Amount | None = Field(None, description="Hours that people spent on decisions.")
    money: Amount | None = Field(None, description="All of it at the project's prices, in its currency.")

    @model_validator(mode="after")
    def _limits_something(self) -> "Budget":
        if not any(value is not None for value in self.model_dump().values()):
            raise ValueError("name at least one limit, such as `gpu_hours`; leave `budget` out to have none")
        return self
