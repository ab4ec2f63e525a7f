"""By which rule a run's draws choose tasks: one by name. What each does is written at its file in `apps.tasksets.selection`."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from apps.runs.algorithms.parts import named
from apps.runs.algorithms.section import Section


class Sequential(Section):
    name: Literal["sequential"] = Field("sequential", description="The tasks in their order, over and over.")


class Shuffle(Section):
    name: Literal["shuffle"] = Field("shuffle", description="Each epoch is another seeded shuffle of all tasks.")


class Uniform(Section):
    name: Literal["random"] = Field("random", description="Any task, whatever the draws before took.")


Selection = Annotated[Sequential | Shuffle | Uniform, Field(discriminator="name"), BeforeValidator(named)]
