"""Budget of a run. Beyond a limit the run pauses; it can resume after the limit is raised."""

from typing import Annotated

from pydantic import Field, model_validator

from apps.runs.algorithms.section import Section

Amount = Annotated[float, Field(gt=0, le=1e15, allow_inf_nan=False)]


class Budget(Section):
    gpu_hours: Amount | None = Field(None, description="GPU hours of all roles together.")
    cpu_hours: Amount | None = Field(None, description="CPU hours of all roles together.")
    tokens: Amount | None = Field(None, description="Sampled tokens in finished replies.")
    judge_tokens: Amount | None = Field(None, description="Tokens that judges read and write.")
    people_hours: Amount | None = Field(None, description="Hours that people spend on ratings.")
    money: Amount | None = Field(
        None, description="Total cost at the project's prices, in its currency."
    )

    @model_validator(mode="after")
    def _limits_something(self) -> "Budget":
        if not any(value is not None for value in self.model_dump().values()):
            raise ValueError("set at least one limit, such as `gpu_hours`, or leave out `budget`")
        return self
