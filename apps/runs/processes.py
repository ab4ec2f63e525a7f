"""Number of trainer processes of a run, and how they share the weights."""

from typing import Literal

from pydantic import Field

from apps.runs.algorithms.section import Section


class Processes(Section):
    processes: int = Field(
        1,
        ge=1,
        le=1024,
        description=(
            "Number of trainer processes that compute each step together, on one machine or "
            "several, with a GPU each if there are GPUs. You can continue a run with another "
            "number."
        ),
    )
    sharding: Literal["ddp", "fsdp2"] = Field(
        "ddp",
        description=(
            "ddp: each process holds all weights. fsdp2: each process holds a part of the weights, "
            "gradients and optimizer moments, and gathers a layer when it computes it."
        ),
    )

    @property
    def words(self) -> str:
        """Return the section in words, such as "4 processes, fsdp2"; "" for one process."""
        return f"{self.processes} processes, {self.sharding}" if self.processes > 1 else ""
