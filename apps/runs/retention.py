"""When the arrays of a run's rollouts (token ids, logprobs, masks) may be let go; what was said and judged always stays."""

from pydantic import Field, model_validator

from apps.runs.algorithms.section import Section


class Retention(Section):
    """Whichever comes first; what an update, a replay or a person may still need stays in any case."""

    days: int | None = Field(None, ge=1, le=36_500, description="Days after a group was admitted or dropped.")
    uses: int | None = Field(None, ge=1, le=10_000, description="Committed updates that took a group.")

    @model_validator(mode="after")
    def _says_when(self) -> "Retention":
        if self.days is None and self.uses is None:
            raise ValueError("say when: after so many `days`, after so many `uses`, or both")
        return self
