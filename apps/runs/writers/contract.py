"""What a target is, and why there may be none."""

import importlib
from dataclasses import dataclass
from datetime import datetime
from types import ModuleType
from typing import Protocol


class NoTarget(Exception):
    """It cannot be written to; the message says why and what to do."""


@dataclass(frozen=True)
class Step:
    """The figures of one update, all of them; `version`: the trainer's weights when its batch was taken."""

    number: int
    at: datetime
    version: int | None
    values: dict[str, float]

    @property
    def told(self) -> dict[str, float]:
        """The figures, and the version among them."""
        return self.values if self.version is None else {**self.values, "weight_version": float(self.version)}


class Target(Protocol):
    def last_step(self) -> int:
        """The newest step that it has for certain, by its own word; 0: none."""

    def write(self, steps: list[Step]) -> None:
        """Take these, in their order; they are there for certain when it returns, or a later `last_step` does not name them."""

    def close(self, is_over: bool) -> None:
        """`is_over`: the run has ended, nothing follows."""


def package(name: str, extra: str) -> ModuleType:
    """The optional package. Raises NoTarget."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        raise NoTarget(f"{missing.name} is not installed: scripts/setup --with {extra}") from None
