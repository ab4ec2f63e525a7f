"""Interface of a target for metrics, and the error raised if there is none."""

import importlib
from dataclasses import dataclass
from datetime import datetime
from types import ModuleType
from typing import Protocol


class NoTarget(Exception):
    """Raised if the target cannot be written to; the message says why and what to do."""


@dataclass(frozen=True)
class Step:
    """All metrics of one step; `version`: the trainer's weights when its batch was taken."""

    number: int
    at: datetime
    version: int | None
    values: dict[str, float]

    @property
    def metrics(self) -> dict[str, float]:
        """Return the metrics, with the weight version among them."""
        return (
            self.values
            if self.version is None
            else {**self.values, "weight_version": float(self.version)}
        )


class Target(Protocol):
    def last_step(self) -> int:
        """Return the newest step that it has for certain, by its own word; 0: none."""

    def write(self, steps: list[Step]) -> None:
        """Take these, in their order; they are there for certain when it returns, or a later
        `last_step` does not name them.
        """

    def close(self, is_over: bool) -> None:
        """Finish writing. `is_over`: the run has ended, nothing follows."""


def package(name: str, extra: str) -> ModuleType:
    """Return the optional package. Raises NoTarget."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        raise NoTarget(
            f"{missing.name} is not installed: run scripts/setup --with {extra}"
        ) from None
