"""Replay of another run's recorded data, from one of its weight versions on.

Some of what people said may be left out.
"""

from typing import Annotated

from pydantic import Field

from apps.runs.algorithms.section import Section

Name = Annotated[str, Field(min_length=1, max_length=150)]


class Replay(Section):
    """Replay section, as "exclude and replay" writes it.

    If you write it by hand, name the policy whose weights that version is.
    """

    run: str = Field(
        min_length=1,
        max_length=50,
        description="Name of the run whose recorded data is used for training.",
    )
    version: int = Field(0, ge=0, description="Weight version of that run to start from.")
    last_step: int = Field(ge=1, description="Last step of that run to repeat.")
    without_raters: tuple[Name, ...] = Field(
        (), description="Accounts whose ratings and corrections are left out."
    )
    rescoring: int | None = Field(
        None,
        ge=1,
        description="Rescoring of that run whose rewards replace the original machine rewards.",
    )
    without_tasks: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        (), description="Indexes of tasks to leave out."
    )

    @property
    def weights(self) -> str:
        """Return the version that the replay begins with, in the form of a policy's source."""
        return f"{self.run}@{self.version}"
