"""Retention of the arrays of a run's rollouts (token ids, logprobs, masks).

Texts and judgements are always kept.
"""

from pydantic import Field, model_validator

from apps.runs.algorithms.section import Section


class Retention(Section):
    """Deletes by whichever limit comes first, but keeps what a step, a replay or a person may still
    need.
    """

    days: int | None = Field(
        None, ge=1, le=36_500, description="Days after a group was admitted or dropped."
    )
    uses: int | None = Field(
        None, ge=1, le=10_000, description="Number of committed steps that used a group."
    )

    @model_validator(mode="after")
    def _says_when(self) -> "Retention":
        if self.days is None and self.uses is None:
            raise ValueError("set a number of `days`, a number of `uses`, or both")
        return self
