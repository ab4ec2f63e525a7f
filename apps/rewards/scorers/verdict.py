"""What a scorer says about one completion."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Verdict:
    """`value` is in the scorer's range, or None when the scorer cannot judge; `reason` is one sentence for people.

    `undecided`: rules could not tell; where the scorer can ask a model, that one decides.
    """

    value: float | None
    reason: str
    details: dict[str, Any] = field(default_factory=dict)
    undecided: bool = False
