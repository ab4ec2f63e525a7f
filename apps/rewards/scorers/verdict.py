"""Verdict of a scorer about one completion."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Verdict:
    """Value in the scorer's range, or None if it cannot judge, with a reason for people.

    `undecided`: rules could not tell; where the scorer can ask a model, that one decides.
    """

    value: float | None
    reason: str
    details: dict[str, Any] = field(default_factory=dict)
    undecided: bool = False
