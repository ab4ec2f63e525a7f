"""What an environment of our own is: a class that is reset, stepped and closed. Pure Python, and the same for the same seed."""

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

Observation = str | list[dict]


@dataclass(frozen=True)
class Step:
    """What follows an action: the next observation, what the action earned, whether it is over."""

    observation: Observation
    reward: float | None
    done: bool
    info: dict = field(default_factory=dict)


class LibraryEnvironment(Protocol):
    """One instance plays one episode. Nothing but seed, options and actions may decide what it says: it is played again from
    them when its process was killed for the sake of another.
    """

    title: ClassVar[str]
    reward_low: ClassVar[float]
    reward_high: ClassVar[float]
    turn_limit: ClassVar[int]
    turn_s: ClassVar[float]

    def reset(self, seed: int, options: dict) -> Observation:
        """Begin. Raises ValueError naming an option that cannot be."""

    def step(self, action: str) -> Step:
        """What the policy's words lead to. Words that mean nothing are answered, not raised at."""

    def close(self) -> None:
        """Give back what it holds."""
