"""What a run replays: the recorded data of another run, from one of its weight versions on, without some of what people said."""

from typing import Annotated

from pydantic import Field

from apps.runs.algorithms.section import Section

Name = Annotated[str, Field(min_length=1, max_length=150)]


class Replay(Section):
    """Written by "exclude and replay"; whoever writes it by hand must name the policy that those weights were made into."""

    run: str = Field(min_length=1, max_length=50, description="Slug of the run whose recorded data is learned from again.")
    version: int = Field(0, ge=0, description="The weight version of that run which this one begins with.")
    until: int = Field(ge=1, description="The last update of that run that is made again.")
    without_raters: tuple[Name, ...] = Field((), description="Accounts whose ratings and corrections are left out.")
    rescoring: int | None = Field(
        None, ge=1, description="A new set of that run's rewards, learned from in the place of what its machines said first."
    )
    without_tasks: tuple[Annotated[int, Field(ge=0)], ...] = Field((), description="Indexes of tasks that are left out.")

    @property
    def weights(self) -> str:
        """What it begins with, as policies name where they come from."""
        return f"{self.run}@{self.version}"
